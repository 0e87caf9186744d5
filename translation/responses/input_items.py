"""The input of a request as items in full form, with the tools found in it."""

from collections.abc import Iterable, Sequence
from typing import Any

from translation.errors import Unrepresentable
from translation.representation.json_types import Item, Json

_TOOL_HOLDERS = frozenset({"additional_tools", "tool_search_output"})
"""Items that bring tools, callable from then on. Source: Codex sends all its tools this way to some models."""


def expand_input(
    given: str | Sequence[Json], tools: Sequence[Json], *, allow_references: bool = False
) -> tuple[Sequence[Item], Sequence[Json]]:
    """A validated request's `input` in full form, and its `tools`, then those the items brought. Raises Unrepresentable
    for a reference to an item, unless whoever gets the request knows what `references` mean."""
    if isinstance(given, str):
        said = [{"type": "input_text", "text": given}]
        return [{"type": "message", "role": "user", "content": said}], tools
    items: list[Item] = []
    found: list[Json] = []
    for position, item in enumerate(given):
        kind = _kind_of(item)
        if kind == "item_reference" and not allow_references:
            raise Unrepresentable(
                f"Item '{item['id']:.80}' is only referred to, and no items are stored here: send the item itself.",
                param=f"input[{position}]",
            )
        if kind in _TOOL_HOLDERS:
            found += item["tools"]
        if kind == "additional_tools":
            continue
        items.append(_expand(item, kind))
    return items, _merge_tools([*tools], found) if found else tools


def expand_item(item: Json) -> Item:
    """One item with its type, and a message's content as parts."""
    return _expand(item, _kind_of(item))


def _kind_of(item: Json) -> str:
    return item.get("type") or ("message" if "role" in item else "item_reference")


def _expand(item: Json, kind: str) -> Item:
    if kind == "message":
        return {**item, "type": "message", "content": _content_parts(item["role"], item["content"])}
    return item if item.get("type") else {**item, "type": kind}


def _content_parts(role: str, content: str | list[Json]) -> list[Json]:
    if role == "assistant":
        given = [{"type": "output_text", "text": content}] if isinstance(content, str) else content
        return [_assistant_part(part) for part in given]
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _assistant_part(part: Json) -> Json:
    """A part of an assistant's message. Clients write `input_text` there too, and leave out empty annotations."""
    if part["type"] == "refusal":
        return part
    return {**part, "type": "output_text", "annotations": part.get("annotations") or []}


def _merge_tools(tools: list[Json], found: Iterable[Json]) -> list[Json]:
    """Add the tools found: one found again replaces its earlier self, a namespace gains what is new in it."""
    places: dict[tuple[Any, Any], int] = {_tool_identity(tool): place for place, tool in enumerate(tools)}
    for tool in found:
        place = places.setdefault(_tool_identity(tool), len(tools))
        if place == len(tools):
            tools.append(tool)
        elif tool.get("type") == "namespace":
            tools[place] = {**tool, "tools": _merge_tools([*tools[place]["tools"]], tool["tools"])}
        else:
            tools[place] = tool
    return tools


def _tool_identity(tool: Json) -> tuple[Any, Any]:
    return tool.get("type"), tool.get("name") or tool.get("server_label")
