"""The input of a request as items in full form, with the tools found in it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from translation.errors import Unrepresentable
from translation.json_types import Item, Json

_TOOL_HOLDERS = frozenset({"additional_tools", "tool_search_output"})
"""Items that bring tools, callable from then on. Source: Codex sends all its tools this way to some models."""


class History(NamedTuple):
    """`items` in full form; `tools`: the request's own, then those the items brought."""

    items: Sequence[Item]
    tools: Sequence[Json]


def read(given: str | Sequence[Json], tools: Sequence[Json], *, references: bool = False) -> History:
    """A validated request's `input` and `tools`. Raises Unrepresentable for a reference to an item, unless whoever
    gets the request knows what `references` mean."""
    if isinstance(given, str):
        return History([_message({"role": "user", "content": given})], tools)
    items: list[Item] = []
    found: list[Json] = []
    for position, item in enumerate(given):
        kind = item.get("type") or ("message" if "role" in item else "item_reference")
        if kind == "item_reference" and not references:
            raise Unrepresentable(
                f"Item '{item['id']:.80}' is only referred to, and no items are stored here: send the item itself.",
                param=f"input[{position}]",
            )
        if kind in _TOOL_HOLDERS:
            found += item["tools"]
        if kind == "additional_tools":
            continue
        items.append(full_form(item))
    return History(items, _merge([*tools], found) if found else tools)


def full_form(item: Json) -> Item:
    """One item with its type, and a message's content as parts."""
    kind = item.get("type") or ("message" if "role" in item else "item_reference")
    return _message(item) if kind == "message" else {**item, "type": kind}


def _message(item: Json) -> Item:
    content = item["content"]
    if item["role"] == "assistant":
        parts = [_said({"type": "output_text", "text": content})] if isinstance(content, str) else map(_said, content)
    else:
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {**item, "type": "message", "content": list(parts)}


def _said(part: Json) -> Json:
    """A part of an assistant's message. Clients write `input_text` there too, and leave out empty annotations."""
    if part["type"] == "refusal":
        return part
    return {**part, "type": "output_text", "annotations": part.get("annotations") or []}


def _merge(tools: list[Json], found: Iterable[Json]) -> list[Json]:
    """Add the tools found: one found again replaces its earlier self, a namespace gains what is new in it."""
    places: dict[tuple[Any, Any], int] = {_identity(tool): place for place, tool in enumerate(tools)}
    for tool in found:
        place = places.setdefault(_identity(tool), len(tools))
        if place == len(tools):
            tools.append(tool)
        elif tool.get("type") == "namespace":
            tools[place] = {**tool, "tools": _merge([*tools[place]["tools"]], tool["tools"])}
        else:
            tools[place] = tool
    return tools


def _identity(tool: Json) -> tuple[Any, Any]:
    return tool.get("type"), tool.get("name") or tool.get("server_label")
