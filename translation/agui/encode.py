"""Encodes events as AG-UI events, one server-sent event each."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import orjson

from translation.agui.activities import (
    CALL_PROGRESS,
    SHELL_OUTPUT,
    build_call_report,
    build_list_activity,
    build_output,
    build_output_end,
    build_progress,
)
from translation.agui.call_writer import CallWriter, write_event
from translation.agui.open_item import OpenItem
from translation.agui.run import PROTOCOL_VERSION, RunHead
from translation.agui.run_end import RunEnd
from translation.agui.tool_items import (
    STREAMED_TYPES,
)
from translation.encoding.event_encoder import EventEncoder, TextFrames
from translation.framing import sse
from translation.representation.delta_runs import DeltaRun, TextObserver
from translation.representation.events import (
    Annotated,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
)
from translation.representation.json_types import Item, Json

_TEXT_KEYS: Final = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}


def _find_no_expiry(_request: Item) -> None:
    return None


class RunInterrupts(NamedTuple):
    """The requests for approvals and input that concern a run."""

    expiry_of: Callable[[Item], str | None] = _find_no_expiry
    """Returns the time at which the interrupt of a request expires, as text in the format of ISO 8601, or None."""
    open_requests: Iterable[Item] = ()
    """Earlier requests that remain open at the end of the run."""
    problems: Mapping[str, str] | None = None
    """Describes invalid answers to open requests, by the ids of the requests."""
    closed_ids: Container[str] = ()
    """Requests of the run that have been closed."""
    approved_ids: Iterable[str] = ()
    """Earlier calls that the run continues."""


_NO_INTERRUPTS: Final = RunInterrupts()


class AguiEncoder(EventEncoder):
    """Encodes one run, from RUN_STARTED to its end.

    The batches must satisfy the event grammar, and every ItemEnded must have its final item. `results` are sent first:
    the results of earlier calls that were not run, by the ids of the calls.
    """

    def __init__(
        self,
        head: RunHead,
        *,
        response_id: str,
        model: str,
        results: Mapping[str, str] | None = None,
        interrupts: RunInterrupts = _NO_INTERRUPTS,
    ) -> None:
        super().__init__()
        self._head = head
        self._response_id = response_id
        self._results = results or {}
        self._end = RunEnd(
            head,
            model=model,
            expiry_of=interrupts.expiry_of,
            requests=interrupts.open_requests,
            problems=interrupts.problems,
        )
        self._items: dict[int, OpenItem] = {}
        self._items_by_id: dict[str, OpenItem] = {}
        self._calls = CallWriter(self._end, closed_ids=interrupts.closed_ids, approved_ids=interrupts.approved_ids)

    def build_delta_template(self, run: DeltaRun, observers: Sequence[TextObserver] = ()) -> None:
        """Returns None: this encoder has no delta template, so every delta has to be fed."""
        return

    def _encode_failure(self, failed: Failed, /) -> bytes:
        return _encode_events(self._end.build_error(failed))

    def _encode_end(self, _finished: Finished, /) -> bytes:
        return _encode_events(self._end.build_finish())

    def _start(self, event: Started, frames: list[bytes], /) -> None:
        head = self._head
        started: Json = {"type": "RUN_STARTED", "threadId": head.thread_id, "runId": head.run_id}
        if head.parent_run_id is not None:
            started["parentRunId"] = head.parent_run_id
        if head.is_versioned:
            started |= {"protocolVersion": PROTOCOL_VERSION, "metadata": {"responseId": self._response_id}}
        write_event(frames, started)
        if head.is_state_restored:
            for state in self._end.build_state():
                write_event(frames, state)
        for call_id, result in self._results.items():
            self._calls.write_result(call_id, result, frames)

    def _start_item(self, event: ItemStarted, frames: list[bytes], /) -> None:
        item = event.item
        entry = self._items[event.index] = self._items_by_id[item["id"]] = OpenItem(item)
        kind = item["type"]
        if kind == "mcp_list_tools":
            write_event(frames, build_list_activity(item, is_done=False))
        elif kind in STREAMED_TYPES:
            if not (kind == "mcp_call" and item.get("approval_request_id")):
                self._calls.start(entry, frames)
            if item.get("arguments"):
                self._write_text(event.index, None, item["arguments"], frames)

    def _start_part(self, event: PartStarted, frames: list[bytes], /) -> None:
        entry = self._items[event.index]
        part = event.part
        entry.texts[event.part_index] = 0
        _record_refusal(entry, event.part_index, part)
        if (key := _TEXT_KEYS.get(part.get("type") or "")) is not None and part.get(key):
            self._write_text(event.index, event.part_index, part[key], frames)

    def _write_text(self, index: int, part_index: int | None, text: str, frames: list[bytes], /) -> None:
        """Writes the first text of a part, and builds the template for the following texts."""
        entry = self._items[index]
        kind = entry.item["type"]
        entry.texts.setdefault(part_index, 0)
        entry.count_text(part_index, text)
        if not text:
            return
        if kind == "message":
            content: Json = {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._start_message(entry, frames)}
            if part_index in entry.refusals and self._head.is_versioned:
                content["metadata"] = {"refusal": True}
        elif kind == "reasoning" and part_index is not None:
            message_id = self._start_thought(entry, part_index, frames)
            content = {"type": "REASONING_MESSAGE_CONTENT", "messageId": message_id}
        elif kind in STREAMED_TYPES and entry.is_started:
            content = {"type": "TOOL_CALL_ARGS", "toolCallId": entry.call_id}
        else:
            return
        template = orjson.dumps(content)[:-1].replace(b"%", b"%%")
        template = b'data: %b,"delta":%%b}\n\n' % template
        self._texts[index, part_index] = TextFrames(template, partial(entry.count_text, part_index))
        frames.append(template % orjson.dumps(text))

    def _start_message(self, entry: OpenItem, frames: list[bytes]) -> str:
        message_id: str = entry.item["id"]
        if not entry.is_started:
            entry.is_started = True
            self._calls.parent_id = message_id
            write_event(frames, {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"})
        return message_id

    def _start_thought(self, entry: OpenItem, part_index: int, frames: list[bytes]) -> str:
        if not entry.is_started:
            entry.is_started = True
            self._calls.parent_id = None
            write_event(frames, {"type": "REASONING_START", "messageId": entry.item["id"]})
        message_id = entry.open_parts[part_index] = reasoning_message_id(entry.item["id"], part_index)
        entry.first_thought_id = entry.first_thought_id or message_id
        write_event(frames, {"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning"})
        return message_id

    def _end_part(self, event: PartEnded, frames: list[bytes], /) -> None:
        entry = self._items[event.index]
        part = event.part or {}
        if event.part_index is None:
            if entry.item["type"] == "mcp_call" and entry.is_started:
                # The client sees that the arguments are complete while the tool runs.
                self._calls.end_arguments(entry, part.get("arguments") or "", frames)
            return
        if (key := _TEXT_KEYS.get(part.get("type") or "")) is not None:
            self._write_missing_text(event.index, event.part_index, part.get(key) or "", frames)
        self._end_thought(entry, event.part_index, frames)

    def _end_thought(self, entry: OpenItem, part_index: int, frames: list[bytes]) -> None:
        if (message_id := entry.open_parts.pop(part_index, None)) is not None:
            write_event(frames, {"type": "REASONING_MESSAGE_END", "messageId": message_id})

    def _write_missing_text(self, index: int, part_index: int | None, whole: str, frames: list[bytes]) -> None:
        """Writes the rest of a whole text that the deltas did not contain."""
        if missing := whole[self._items[index].texts.get(part_index, 0) :]:
            self._write_text(index, part_index, missing, frames)

    def _end_item(self, event: ItemEnded, frames: list[bytes], /) -> None:
        entry = self._items[event.index]
        item = event.item or entry.item
        match item["type"]:
            case "message":
                self._write_missing_parts(event.index, item.get("content") or (), frames)
                if entry.is_started:
                    write_event(frames, {"type": "TEXT_MESSAGE_END", "messageId": entry.item["id"]})
                    self._end.client_messages.add_text(entry.item["id"], _text_of(item))
            case "reasoning":
                self._end_reasoning(event.index, item, frames)
            case "mcp_list_tools":
                write_event(frames, build_list_activity(item))
            case _:
                if item["type"] == "shell_call_output" and entry.phase is not None:
                    write_event(frames, build_output_end(entry, item.get("status") or "completed"))
                self._calls.end(event, entry, item, frames)

    def _write_missing_parts(self, index: int, parts: Iterable[Json], frames: list[bytes]) -> None:
        """Writes the parts of an item that had no events of their own."""
        if any(self._items[index].texts.values()):
            return
        for part_index, part in enumerate(parts):
            _record_refusal(self._items[index], part_index, part)
            if (key := _TEXT_KEYS.get(part.get("type") or "")) is not None:
                self._write_text(index, part_index, part.get(key) or "", frames)

    def _end_reasoning(self, index: int, item: Item, frames: list[bytes]) -> None:
        entry = self._items[index]
        self._write_missing_parts(index, [*(item.get("summary") or ()), *(item.get("content") or ())], frames)
        encrypted = item.get("encrypted_content")
        if encrypted and entry.first_thought_id is None:
            # Clients keep the value with a message. Without one they lose it.
            self._start_thought(entry, 0, frames)
        for part_index in list(entry.open_parts):
            self._end_thought(entry, part_index, frames)
        if encrypted:
            value = {
                "type": "REASONING_ENCRYPTED_VALUE",
                "subtype": "message",
                "entityId": entry.first_thought_id,
                "encryptedValue": encrypted,
            }
            write_event(frames, value)
        if entry.is_started:
            write_event(frames, {"type": "REASONING_END", "messageId": entry.item["id"]})

    def _progress(self, event: Progressed, frames: list[bytes], /) -> None:
        for activity in build_progress(self._items[event.index], event):
            write_event(frames, activity)

    def _annotate(self, event: Annotated, frames: list[bytes], /) -> None:
        value = {"messageId": self._items[event.index].item["id"], "annotation": event.annotation}
        write_event(frames, {"type": "CUSTOM", "name": "annotation", "value": value})

    def _note(self, event: Noted, frames: list[bytes], /) -> None:
        self._end.usage = event.usage or self._end.usage

    def _forward(self, event: Opaque, frames: list[bytes], /) -> None:
        if event.payload.get("type") == CALL_PROGRESS:
            entry = self._items_by_id.get(str(event.payload.get("item_id")))
            if entry is not None and entry.phase is not None:
                write_event(frames, build_call_report(entry, event.payload))
        elif event.payload.get("type") == SHELL_OUTPUT and event.index is not None:
            write_event(frames, build_output(self._items[event.index], event.payload))
        if self._head.sends_raw_events:
            write_event(frames, {"type": "RAW", "event": event.payload, "source": event.dialect})

    def _finish(self, event: Finished, frames: list[bytes], /) -> None:
        self._end.finish(event)
        self._calls.end_awaited(frames)
        super()._finish(event, frames)

    def _fail(self, event: Failed, frames: list[bytes], /) -> None:
        self._end.usage = event.usage or self._end.usage
        super()._fail(event, frames)


def _text_of(message: Item) -> str:
    """Returns the text of a message as it was sent."""
    parts = [(part, _TEXT_KEYS.get(part.get("type") or "")) for part in message.get("content") or ()]
    return "".join(part.get(key) or "" for part, key in parts if key is not None)


def _record_refusal(entry: OpenItem, part_index: int, part: Json) -> None:
    if part.get("type") == "refusal":
        entry.refusals.add(part_index)


def reasoning_message_id(item_id: str, part_index: int) -> str:
    """Returns the id of the message for one part of a reasoning item. The span of the whole item has the item's id."""
    return f"{item_id}:{part_index}"


def _encode_events(events: Iterable[Json]) -> bytes:
    return b"".join(sse.encode_data(orjson.dumps(event)) for event in events)
