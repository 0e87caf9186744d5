"""Expands the `input` of a request to items in full form, and collects the tools that items bring.

All that look at an item before it is in full form find its kind here.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from translation.errors import Unrepresentable
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.responses.agent_items import AGENT_TYPES, expand_agent_item, has_call_id, pair_unnamed_outputs

TOOL_HOLDERS: Final = frozenset({"additional_tools", "tool_search_output"})
"""Types of items that bring tools, which the model may call from then on. Codex sends all its tools this way to some
models. A search of the server brings none: it found them among the tools of the request."""

_REFERENCE: Final = "item_reference"
"""The kind of an item that stands for a stored one with its id."""


def find_item_kind(item: Json) -> str | None:
    """Returns the `type` of an item. Messages and references may have none, or null; None for any other such item."""
    kind = item.get("type")
    if kind is None:
        return "message" if "role" in item else _REFERENCE if "id" in item else None
    return kind if isinstance(kind, str) else None


def is_reference(item: Json) -> bool:
    """Returns whether an item stands for a stored one."""
    return find_item_kind(item) == _REFERENCE


def expand_input(
    input_value: str | Sequence[Json],
    tools: Sequence[Json],
    *,
    allow_references: bool = False,
    losses: list[Loss] | None = None,
) -> tuple[Sequence[Item], Sequence[Json]]:
    """Returns a validated request's `input` as items in full form, and `tools` with the tools from items.

    What only another server can read of items is left out, and added to `losses`. Raises Unrepresentable for a
    reference to an item, unless `allow_references` says that the upstream resolves it.
    """
    if isinstance(input_value, str):
        parts = [{"type": "input_text", "text": input_value}]
        return [{"type": "message", "role": "user", "content": parts}], tools
    items: list[Item] = []
    added_tools: list[Json] = []
    unread: list[Loss] = [] if losses is None else losses
    is_paired = True
    for position, item in enumerate(input_value):
        kind = item.get("type") or find_item_kind(item)
        if kind == "message":
            items.append(_expand_message(item))
            continue
        if kind == _REFERENCE and not allow_references:
            raise Unrepresentable(
                f"Item '{item['id']:.80}' is a reference, and items are not stored here: send the item itself.",
                param=f"input[{position}]",
            )
        if kind in AGENT_TYPES:
            if (read := expand_agent_item(item, position, unread)) is not None:
                items.append(read)
            continue
        if kind == "function_call_output" and not has_call_id(item):
            is_paired = False
        if kind in TOOL_HOLDERS and item.get("execution") != "server":
            added_tools += item["tools"]
            if kind == "additional_tools":
                continue
        items.append(item if item.get("type") else {**item, "type": kind})
    if not is_paired:
        items = pair_unnamed_outputs(items)
    return items, _merge_tools([*tools], added_tools) if added_tools else tools


def expand_item(item: Json) -> Item:
    """Returns an item in full form: with its `type`, and with the content of a message as a list of parts."""
    kind = item.get("type") or find_item_kind(item)
    if kind == "message":
        return _expand_message(item)
    return item if item.get("type") else {**item, "type": kind}


def _expand_message(item: Json) -> Item:
    content = item["content"]
    parts = _assistant_parts(content) if item["role"] == "assistant" else _input_parts(content)
    return item if parts is content and item.get("type") else {**item, "type": "message", "content": parts}


def _input_parts(content: str | list[Json]) -> list[Json]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def _assistant_parts(content: str | list[Json]) -> list[Json]:
    """Returns content of an assistant in full form, the same object if it is in full form already."""
    if isinstance(content, str):
        return [{"type": "output_text", "text": content, "annotations": []}]
    return content if all(map(_is_full_assistant_part, content)) else list(map(_expand_assistant_part, content))


def _is_full_assistant_part(part: Json) -> bool:
    kind = part["type"]
    return kind == "refusal" or (kind == "output_text" and part.get("annotations") is not None)


def _expand_assistant_part(part: Json) -> Json:
    """Returns a part of an assistant message in full form. Clients also send `input_text` there, and omit empty
    annotations."""
    if _is_full_assistant_part(part):
        return part
    return {**part, "type": "output_text", "annotations": part.get("annotations") or []}


def _merge_tools(tools: list[Json], added_tools: Iterable[Json]) -> list[Json]:
    """Adds `added_tools` to `tools`, in place. A tool with the same identity is replaced, a namespace is merged."""
    positions: dict[tuple[Any, Any], int] = {_tool_identity(tool): position for position, tool in enumerate(tools)}
    for tool in added_tools:
        position = positions.setdefault(_tool_identity(tool), len(tools))
        if position == len(tools):
            tools.append(tool)
        elif tool.get("type") == "namespace":
            tools[position] = {**tool, "tools": _merge_tools([*tools[position]["tools"]], tool["tools"])}
        else:
            tools[position] = tool
    return tools


def _tool_identity(tool: Json) -> tuple[Any, Any]:
    return tool.get("type"), tool.get("name") or tool.get("server_label")
