"""Builds activities: what hosted tools are doing, which is no part of the conversation."""

from collections.abc import Sequence
from typing import Final

from translation.agui.open_item import OpenItem
from translation.representation.events import Progressed
from translation.representation.json_types import Item, Json

CALL_PROGRESS: Final = "gateway.tool.progress"
"""The type of the event by which a running call of the gateway reports its progress."""


SHELL_OUTPUT: Final = "response.shell_call_output_content.delta"
"""The type of the event by which an upstream that runs commands itself sends their output."""


def build_list_activity(item: Item, *, is_done: bool = True) -> Json:
    """Returns the snapshot of the list of a server's tools."""
    content: Json = {"serverLabel": item["server_label"], "status": "in_progress"}
    if is_done:
        error = {"error": item["error"]} if item.get("error") else {}
        tools = [tool["name"] for tool in item.get("tools") or ()]
        content |= {"status": "failed" if error else "completed", "tools": tools, **error}
    return _snapshot(item, content)


def build_progress(entry: OpenItem, event: Progressed) -> Sequence[Json]:
    """Returns the phase of a hosted call: first as a snapshot, then as changes to it."""
    if entry.item["type"] == "mcp_list_tools" or (entry.phase == event.phase and not event.extra):
        return ()
    is_first, entry.phase = entry.phase is None, event.phase
    if is_first:
        content: Json = {"toolCallId": entry.call_id, "status": event.phase}
        return [_snapshot(entry.item, content | ({"details": event.extra} if event.extra else {}))]
    patch: list[Json] = [{"op": "replace", "path": "/status", "value": event.phase}]
    if event.extra:
        patch.append({"op": "add", "path": "/details", "value": event.extra})
    return [_change(entry.item, *patch)]


def build_call_report(entry: OpenItem, report: Json) -> Json:
    """Returns how far a running call is, as its server reports it, for a call whose phase was sent."""
    facts = {key: report[key] for key in ("progress", "total", "message") if report.get(key) is not None}
    return _change(entry.item, {"op": "add", "path": "/progress", "value": facts})


def build_output(entry: OpenItem, payload: Json) -> Json:
    """Returns the output of a command that the upstream runs: first as a snapshot, then as additions to it."""
    delta = payload["delta"] if isinstance(payload.get("delta"), dict) else {}
    printed = {key: delta[key] for key in ("stdout", "stderr") if isinstance(delta.get(key), str)}
    printed["commandIndex"] = payload.get("command_index") or 0
    is_first, entry.phase = entry.phase is None, "in_progress"
    if is_first:
        return _snapshot(entry.item, {"toolCallId": entry.output_of, "status": entry.phase, "output": [printed]})
    return _change(entry.item, {"op": "add", "path": "/output/-", "value": printed})


def build_output_end(entry: OpenItem, status: str) -> Json:
    """Returns the end of the output that `build_output` sent."""
    return _change(entry.item, {"op": "replace", "path": "/status", "value": status})


def _change(item: Item, *patch: Json) -> Json:
    return {"type": "ACTIVITY_DELTA", **_address(item), "patch": [*patch]}


def _snapshot(item: Item, content: Json) -> Json:
    return {"type": "ACTIVITY_SNAPSHOT", **_address(item), "content": content, "replace": True}


def _address(item: Item) -> Json:
    return {"messageId": f"{item['id']}:activity", "activityType": item["type"]}
