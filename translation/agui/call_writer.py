"""Writes the AG-UI events of calls and their results."""

from collections.abc import Container, Iterable, Mapping
from typing import Any

import orjson

from translation.agui.activities import build_progress
from translation.agui.interrupts import CHANGED
from translation.agui.open_item import OpenItem
from translation.agui.run_end import RunEnd
from translation.agui.tool_items import (
    STREAMED_TYPES,
    is_call_output,
    is_hosted_call,
    render_output,
    render_result,
    require_call,
    view_call,
)
from translation.framing import sse
from translation.representation.events import ItemEnded, Progressed
from translation.representation.json_types import Item, Json


class CallWriter:
    """Writes the calls of one run into frames, and records in `end` the data of its last event.

    `closed_ids` are requests of this run that have been closed. `approved_ids` are earlier calls that this run
    continues.
    """

    def __init__(self, end: RunEnd, *, closed_ids: Container[str], approved_ids: Iterable[str]) -> None:
        self.parent_id: str | None = None
        """The message that the next call belongs to: the text before it, or the first call beside it."""
        self._end = end
        self._closed_ids = closed_ids
        self._awaited_ids = dict.fromkeys(approved_ids)
        """The calls of earlier runs that have no result yet."""

    def start(self, entry: OpenItem, frames: list[bytes]) -> None:
        """Starts the call of an item."""
        call = require_call(entry.item)
        entry.is_started = True
        started: Json = {"type": "TOOL_CALL_START", "toolCallId": call.call_id, "toolCallName": call.name}
        entry.parent_id = self.parent_id
        if self.parent_id is not None:
            started["parentMessageId"] = self.parent_id
        else:
            # A client makes a message of this call, under the id of the call. Calls beside it go into that message.
            self.parent_id = call.call_id
        write_event(frames, started)

    def end(self, event: ItemEnded, entry: OpenItem, item: Item, frames: list[bytes]) -> None:
        """Ends an item that is a call, or the output of one. `item` is the final one. Others have no events."""
        call = view_call(item)
        if call is None:
            self._end_output(item, frames)
            return
        is_resumed = item["type"] == "mcp_call" and bool(item.get("approval_request_id"))
        if not (is_resumed or item.get("continues")):
            if not entry.is_started:
                self.start(entry, frames)
            self.end_arguments(entry, call.arguments, frames)
            self._end.client_messages.add_call(call, entry.parent_id)
        if item["type"] == "mcp_approval_request":
            if item["id"] not in self._closed_ids:
                self._end.requests.append(item)
        elif item.get("input_request_id"):
            self._awaited_ids.pop(call.call_id, None)  # the client sends its result later
            for activity in build_progress(entry, Progressed(event.index, "input_required")):
                write_event(frames, activity)
        elif is_hosted_call(item):
            self.write_result(call.call_id, render_result(item), frames)
            if item["type"] == "image_generation_call" and item.get("result"):
                image = {"toolCallId": call.call_id, "image": item["result"]}
                image["mimeType"] = f"image/{item.get('output_format') or 'png'}"
                write_event(frames, {"type": "CUSTOM", "name": "image", "value": image})
        elif item.get("status") != "incomplete" and event.status != "incomplete":
            self._end.pending_ids.append(call.call_id)

    def end_arguments(self, entry: OpenItem, arguments: str, frames: list[bytes]) -> None:
        """Ends the arguments of a call, once, with their unsent rest."""
        if entry.has_arguments:
            return
        entry.has_arguments = True
        sent = entry.texts.get(None, 0) if entry.item["type"] in STREAMED_TYPES else 0
        if missing := arguments[sent:]:
            write_event(frames, {"type": "TOOL_CALL_ARGS", "toolCallId": entry.call_id, "delta": missing})
        write_event(frames, {"type": "TOOL_CALL_END", "toolCallId": entry.call_id})

    def write_result(self, call_id: str, content: str, frames: list[bytes]) -> None:
        """Writes the result of a call. Text after it belongs to a new message."""
        self.parent_id = None
        self._awaited_ids.pop(call_id, None)
        message_id = f"{call_id}:result"
        result = {"type": "TOOL_CALL_RESULT", "messageId": message_id, "toolCallId": call_id}
        write_event(frames, result | {"content": content, "role": "tool"})
        self._end.client_messages.add_result(message_id, call_id, content)

    def end_awaited(self, frames: list[bytes]) -> None:
        """Writes the results of earlier calls that this run did not have: their tools have changed."""
        for call_id in list(self._awaited_ids):
            self.write_result(call_id, CHANGED, frames)

    def _end_output(self, item: Item, frames: list[bytes]) -> None:
        """Writes the output of a call that the upstream ran itself, so that it is not the client's to run."""
        call_id = item.get("call_id")
        if is_call_output(item) and call_id in self._end.pending_ids:
            self._end.pending_ids.remove(call_id)
            self.write_result(call_id, render_output(item), frames)


def write_event(frames: list[bytes], event: Mapping[str, Any]) -> None:
    """Adds the frame of one event."""
    frames.append(sse.encode_data(orjson.dumps(event)))
