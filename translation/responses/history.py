"""The input of a request as items in full form, with the tools found in it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from translation.errors import InvalidRequest, Unrepresentable
from translation.json_types import Item, Json

_CALL_OF = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "shell_call_output": "shell_call",
    "apply_patch_call_output": "apply_patch_call",
    "computer_call_output": "computer_call",
}
"""Output item -> the call it answers, by `call_id`. Source: OpenAI refuses an output whose call it cannot find."""

_TOOL_HOLDERS = frozenset({"additional_tools", "tool_search_output"})
"""Items that bring tools, callable from then on. Source: Codex sends all its tools this way to some models."""


class History(NamedTuple):
    """`items` in full form; `tools`: the request's own, then those the items brought."""

    items: Sequence[Item]
    tools: Sequence[Json]


def read(given: str | Sequence[Json], tools: Sequence[Json]) -> History:
    """A validated request's `input` and `tools`. Raises InvalidRequest naming the item that cannot be used."""
    if isinstance(given, str):
        return History([_message({"role": "user", "content": given})], tools)
    items: list[Item] = []
    found: list[Json] = []
    calls: set[tuple[str, str]] = set()
    for position, item in enumerate(given):
        kind = item.get("type") or ("message" if "role" in item else "item_reference")
        if kind == "item_reference":
            raise Unrepresentable(
                f"Item '{item['id']}' is only referred to, and no items are stored here: send the item itself.",
                param=f"input[{position}]",
            )
        if kind in _TOOL_HOLDERS:
            found += item["tools"]
        if kind == "additional_tools":
            continue
        if call_id := item.get("call_id"):
            _match_call(kind, call_id, calls, position)
        items.append(_message(item) if kind == "message" else item)
    return History(items, _merge([*tools], found) if found else tools)


def _match_call(kind: str, call_id: str, calls: set[tuple[str, str]], position: int) -> None:
    call = _CALL_OF.get(kind)
    if call is None:
        calls.add((kind, call_id))
    elif (call, call_id) not in calls:
        raise InvalidRequest(
            f"No {call} with call_id '{call_id}' comes before this {kind}.", param=f"input[{position}].call_id"
        )


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
