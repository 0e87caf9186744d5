"""Rewrites past calls and their outputs as function calls, for upstreams that know no other kind."""

from collections.abc import Sequence
from typing import Final

import orjson

from translation.errors import Unrepresentable
from translation.lowering.client_search import TOOL_SEARCH, is_of_server
from translation.lowering.unsupported import UNSUCCESSFUL_STATUSES
from translation.representation.items import HOSTED_CALL_KINDS
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.tools import freeform
from translation.tools.kinds import CLIENT_TOOL_KINDS, OUTPUT_CONVERSIONS
from translation.tools.names import ClientToolName, ToolNames

TOOL_FREE_TYPES: Final = frozenset({"message", "reasoning"})
"""Types of items that belong to no tool."""

_UNCHANGED_TYPES = TOOL_FREE_TYPES | {"function_call_output"}
"""Types of items that are never rewritten."""

_HOSTED_KINDS = {
    **HOSTED_CALL_KINDS,
    "mcp_list_tools": "mcp",
    "mcp_approval_request": "mcp",
    "mcp_approval_response": "mcp",
    "program": "programmatic_tool_calling",
    "program_output": "programmatic_tool_calling",
}
"""Item type -> kind of hosted tool."""

_KIND_OF_CALL = {kind.call_type: name for name, kind in reversed(CLIENT_TOOL_KINDS.items())}


def rewrite_items(
    items: Sequence[Item], native: frozenset[str], names: ToolNames, losses: list[Loss]
) -> Sequence[Item]:
    """Rewrites calls as function calls and outputs as function call outputs. Returns `items` itself if nothing changes.

    Names of tools that are no longer declared are claimed here, so that a repeated call of them can be mapped back.
    Items of hosted tools that the upstream does not run are left out, which is a loss. Raises Unrepresentable if one is
    an approval of a call that the request ends with.
    """
    changed: dict[int, Item | None] = {}
    for i, item in enumerate(items):
        kind = item["type"]
        if kind in _UNCHANGED_TYPES:
            continue
        if kind == "function_call" and not item.get("namespace") and names.keeps(item["name"]):
            continue
        if (new_item := _rewrite_item(item, i, native, names, losses)) is None:
            _require_no_approval(items, i)
        if new_item is not item:
            changed[i] = new_item
    if not changed:
        return items
    rewritten = (changed.get(i, item) for i, item in enumerate(items))
    return [item for item in rewritten if item is not None]


def _require_no_approval(items: Sequence[Item], i: int) -> None:
    """Raises Unrepresentable if the item that is left out is an approval that the request ends with: its client waits
    for the call."""
    if items[i].get("approve") and all(items[n]["type"] == "mcp_approval_response" for n in range(i, len(items))):
        raise Unrepresentable(
            "No tool of this request can run the approved call: send the `mcp` tool of its server with the approval.",
            param=f"input[{i}]",
        )


def _rewrite_item(item: Item, i: int, native: frozenset[str], names: ToolNames, losses: list[Loss]) -> Item | None:
    kind = item["type"]
    if kind in ("function_call", "custom_tool_call"):
        return _rewrite_named_call(item, native, names)
    if kind in _KIND_OF_CALL or kind in OUTPUT_CONVERSIONS or kind == "tool_search_output":
        return _rewrite_client_call(item, i, native, names, losses)
    hosted = _HOSTED_KINDS.get(kind)
    if hosted is None or any(kind_name.startswith(hosted) for kind_name in native):
        return item
    losses.append(Loss(f"input[{i}]", f"{kind} left out"))
    return None


def _rewrite_named_call(item: Item, native: frozenset[str], names: ToolNames) -> Item:
    freeform_call = item["type"] == "custom_tool_call"
    kind = "custom" if freeform_call else "function"
    keeps_name = names.keeps(item["name"])
    namespace = None if "namespace" in native and keeps_name else item.get("namespace")
    if kind in native and not namespace and keeps_name:
        return item
    wire = names.claim(ClientToolName(kind, item["name"], namespace))
    if kind in native:
        return {key: value for key, value in {**item, "name": wire}.items() if key != "namespace"}
    return _function_call(item, wire, freeform.wrap_input(item["input"]))


def _rewrite_client_call(
    item: Item, i: int, native: frozenset[str], names: ToolNames, losses: list[Loss]
) -> Item | None:
    kind, output = OUTPUT_CONVERSIONS.get(item["type"], (_KIND_OF_CALL.get(item["type"], "tool_search"), None))
    if kind == "computer" and names.wire_name(ClientToolName("computer_use_preview", "computer_use_preview")):
        kind = "computer_use_preview"
    if kind in native:
        return item
    if kind == TOOL_SEARCH and is_of_server(item):
        losses.append(Loss(f"input[{i}]", f"{item['type']} left out"))
        return None
    if item["type"] == "tool_search_output":
        return _function_call_output(item, _search_result(item, names))
    if output is not None:
        if item.get("max_output_length") is not None:
            losses.append(Loss(f"input[{i}].max_output_length", "dropped"))
        return _function_call_output(item, output(item))
    return _function_call(
        item,
        names.claim(ClientToolName(kind, kind)),
        orjson.dumps(CLIENT_TOOL_KINDS[kind].build_arguments(item)).decode(),
    )


def _function_call(item: Item, wire: str, arguments: str) -> Item:
    return {"type": "function_call", "call_id": item["call_id"], "name": wire, "arguments": arguments}


def _function_call_output(item: Item, output: object) -> Item:
    # A local_shell_call_output has no call_id: its `id` is the id of the call.
    call_output: Item = {"type": "function_call_output", "call_id": item.get("call_id") or item["id"], "output": output}
    return {**call_output, "status": item["status"]} if item.get("status") in UNSUCCESSFUL_STATUSES else call_output


def _search_result(item: Item, names: ToolNames) -> str:
    """Returns the tools that a search found as JSON, with their names on the wire.

    Their schemas are not included, because they are in the tools of the turn.
    """
    results = []
    for tool in item["tools"]:
        namespace, tools = (tool["name"], tool["tools"]) if tool["type"] == "namespace" else (None, [tool])
        for found_tool in tools:
            own_name = found_tool.get("name") or found_tool["type"]
            name = names.wire_name(ClientToolName(found_tool["type"], own_name, namespace)) or own_name
            results.append({"name": name, "description": found_tool.get("description") or ""})
    return orjson.dumps(results).decode()
