"""Relays the stream of a Responses upstream to a Responses client."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from translation.decoding.surrogates import SurrogateJoiner
from translation.encoding.event_encoder import StreamEnd
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES, DONE_PAYLOAD, Frame, FrameDecoder
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Failed, FinishReason, Usage
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Json
from translation.representation.loss import FINAL_TEXT, LOSSES, render_reply_losses
from translation.responses import usage
from translation.responses.client.snapshot import Snapshot
from translation.responses.item_forms import PART_LISTS, complete_item
from translation.responses.relaying.beginnings import BEGIN_EVENTS, ITEM_ADDED, PART_ADDED, read_output_index
from translation.responses.relaying.calls import ARGUMENT_EVENTS, ITEM_DONE, RelayedCalls
from translation.responses.relaying.event_numbers import EventNumbers, build_frame
from translation.responses.relaying.final_output import STREAMED_TEXTS, DoneItems, build_missing_ends, join_output
from translation.responses.relaying.restored_events import PART_DONE
from translation.responses.relaying.streamed_deltas import (
    DELTA_EVENTS,
    DONE_EVENTS,
    NOTHING_RESTORED,
    PART_PREFIXES,
    Restored,
    StreamedDeltas,
)
from translation.responses.relaying.whole_response import (
    TERMINAL_STATUSES,
    OwnResponse,
    build_own_fields,
    complete_known_item,
    complete_known_items,
    complete_known_part,
    complete_output,
    has_items,
    is_item,
    is_response_filtered,
    read_response_reason,
    scrub_failure,
    seal_output,
)
from translation.responses.summaries import ReasoningSummaries, rewrite_output
from translation.responses.upstream.output import TEXT_PLACES
from translation.responses.upstream.response_failures import failure_in, has_error, is_cut_off
from translation.tools.credentials import remove_credentials

_START_EVENTS = frozenset({"response.created", "response.queued", "response.in_progress"})
_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_LIFECYCLE_EVENTS = _START_EVENTS | _TERMINAL_EVENTS

_ITEM_EVENTS = frozenset({ITEM_ADDED, ITEM_DONE})
_PART_EVENTS: Final = frozenset({PART_ADDED, PART_DONE})
_CALL_TYPES: Final = ("function_call", "custom_tool_call")
"""Types of the calls that clients run, by their names."""
_ENDS_OF_TEXTS: Final = DONE_EVENTS.keys() | {PART_DONE}
_INSPECTED_EVENTS = _LIFECYCLE_EVENTS | _ITEM_EVENTS | _PART_EVENTS | ARGUMENT_EVENTS | _ENDS_OF_TEXTS
"""Events that may have to be parsed. All others are forwarded without parsing."""

_TEXT_KEYS: Final = {
    f"{prefix}.{phase}": key
    for prefix, place in TEXT_PLACES.items()
    for phase, key in (("delta", "delta"), ("done", place.text_key))
}
"""Type of an event of a text -> the key of the text."""

_REQUIRED_MEMBERS: Final = (
    (b'"message"', b'"content"'),
    (b'"reasoning"', b'"summary"'),
    (b'"output_text"', b'"annotations"'),
)
"""How the type of an item or a part is written, and a member that it must have."""

_MISSING_MEMBER: Final = re.compile(rb'"(?:content|summary|annotations)": ?null')

_VALUE_MARKS: Final[Mapping[str | None, tuple[bytes, bytes]]] = {
    **{name: (b'"%b":"' % key.encode(), b'"%b": "' % key.encode()) for name, key in _TEXT_KEYS.items()},
    **dict.fromkeys(_ITEM_EVENTS, (b'"item":{', b'"item": {')),
    **dict.fromkeys(_PART_EVENTS, (b'"part":{', b'"part": {')),
}
"""Type of an event -> how its payload begins its text or its item, one of both. Others have to be parsed: a client
would read a number or null as a part of the answer, or stop."""

_TRUNCATED = Failed("upstream_truncated", "the upstream closed its stream before the response was complete")
_GARBLED = Failed("upstream_garbled", "the upstream sent an event that is not JSON of the Responses API")


class ResponsesRelay(StreamEnd):
    """Takes the upstream's reads, and returns whole frames with LF line ends. `conclude` returns the terminal event.

    Four kinds of frames are parsed: lifecycle frames, a handful per stream, because they carry the model's name and
    the last one the whole response; frames of items that `seal` may have to seal; frames of calls, which `calls`
    normalizes; and with `summarizes_reasoning` frames of readable reasoning, which the client gets as a summary. Every
    other frame is forwarded as it came, known or not. A frame without an `event:` line gets one. The
    terminal event has `tool_warnings` about invalid calls.

    The response of `own` ends as failed if the upstream never began one. Items that the terminal event lacks are taken
    from the events that ended them. If the response is stored, one with output that cannot be stored fails. `scrub`
    redacts the upstream's error messages.
    Raises ProtocolViolation for a frame longer than `max_frame_bytes`.
    """

    template = None
    """Always None: there is no template, because the upstream numbers the events."""

    def __init__(
        self,
        own: OwnResponse,
        *,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        scrub: Callable[[str], str] = str,
        seal: ItemSeal | None = None,
        calls: CallRules = DEFAULT_RULES,
        summarizes_reasoning: bool = False,
    ) -> None:
        super().__init__()
        self.has_content = False
        """Whether content was forwarded. Then the request must not be retried."""
        self.is_filtered = False
        """Whether a content filter ended the response before it had content."""
        self.response: Json | None = None
        """The latest snapshot of the response. Once `ended` is True it is the finished response."""
        self.usage: Usage | None = None
        self.finish_reason: FinishReason | None = None
        """Why the response ended; None before, and if it failed."""
        self.unreported: Sequence[str] = ()
        """What of the reply clients cannot rely on, by the names that losses have for it."""
        self._own = own
        self._own_fields = build_own_fields(own)
        self._done_items = DoneItems()
        self._scrub = scrub
        self._seal = seal
        self._summaries = ReasoningSummaries() if summarizes_reasoning else None
        self._calls = RelayedCalls(calls)
        self._frames = FrameDecoder(max_frame_bytes)
        self._characters = SurrogateJoiner()
        self._deltas = StreamedDeltas()
        self._numbers = EventNumbers()
        self._closing_event: Json = {}

    @property
    def warnings(self) -> list[Json]:
        """Entries for `tool_warnings`: complete calls that break a rule."""
        return self._calls.warnings

    def feed(self, read: bytes) -> bytes:
        """Takes one read. Returns the frames to send, possibly none."""
        return b"".join([self._forward(frame) for frame in self._frames.feed(read)])

    def finish(self) -> bytes:
        """Ends the stream, because the upstream closed. Returns the last frames before the terminal event.

        Without a terminal event of the upstream the response fails.
        """
        frames = b"".join([self._forward(frame) for frame in self._frames.finish() if _is_json(frame.payload)])
        return frames if self.ended else frames + self.fail(_TRUNCATED)

    def fail(self, failed: Failed) -> bytes:
        """Ends the response in failure. This replaces an end that `conclude` has not returned yet.

        Returns the frames to send before the terminal event. If the upstream sent an `error` event before, that failure
        is reported instead of `failed`, because it says more than how the connection ended.
        """
        if self._is_concluded:
            return b""
        self.failed = self.failed or failed
        # Clients expect `response.created` before the terminal event.
        beginning = b"" if self._numbers.count else self._start_frames()
        response = self.response or self._own.initial
        snapshot = Snapshot(response, clock=int)
        snapshot.apply(self.failed)
        snapshot.response["output"] = response.get("output") or self._done_items.list_client_items()
        number = self._closing_event.get("sequence_number", self._numbers.find_next())
        event = {"type": "response.failed", "sequence_number": number, "response": snapshot.response}
        return beginning + self._end_response(event)

    def _build_closing_frames(self) -> bytes:
        event = self._closing_event
        return sse.encode_event(event["type"], orjson.dumps(event)) + sse.DONE_FRAME

    def _start_frames(self) -> bytes:
        frames = b""
        for event_type in ("response.created", "response.in_progress"):
            event = {"type": event_type, "sequence_number": self._numbers.count, "response": self._own.initial}
            frames += sse.encode_event(event_type, orjson.dumps(event))
            self._numbers.count += 1
        return frames

    def _forward(self, frame: Frame) -> bytes:
        if self.ended:
            return b""
        if (whole := self._characters.rewrite(frame.payload)) is not frame.payload:
            raw = sse.encode_data(whole) if frame.event is None else sse.encode_event(frame.event, whole)
            frame = Frame(frame.event, whole, raw)
        numbers = self._numbers
        frame = numbers.renumber(frame)
        name = frame.event
        must_parse = name in _INSPECTED_EVENTS and self._must_parse(name, frame.payload)
        if (marks := _VALUE_MARKS.get(name)) is not None and frame.payload.find(marks[0]) < 0:
            must_parse = must_parse or frame.payload.find(marks[1]) < 0
        if self._summaries is not None and not must_parse:
            must_parse = self._summaries.may_change(name, frame.payload)
        if name is not None and name.startswith("response.") and not must_parse and _looks_whole(frame.payload):
            self.has_content = True
            numbers.count += 1
            numbers.last_payload = frame.payload
            if name in DELTA_EVENTS:
                try:
                    self._deltas.add(frame.payload)
                except ProtocolViolation:
                    return self.fail(_GARBLED)
            elif name == ITEM_DONE:
                self._done_items.add_unread(frame.payload)
            elif name in BEGIN_EVENTS:
                self._deltas.beginnings.add(frame.payload)
            return frame.raw
        if frame.payload == DONE_PAYLOAD:
            return self.fail(_TRUNCATED)
        try:
            event = orjson.loads(frame.payload)
            return self._forward_parsed(sse.require_event_name(event["type"]), event, frame)
        except ProtocolViolation as violation:
            return self.fail(Failed("upstream_garbled", str(violation)))
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
            return self.fail(_GARBLED)

    def _must_parse(self, name: str | None, payload: bytes) -> bool:
        if name in _ENDS_OF_TEXTS or name in _LIFECYCLE_EVENTS:
            return True
        if name in ARGUMENT_EVENTS:
            return bool(self._calls.watched_indexes)
        if name == ITEM_DONE and (self._own.is_stored or self._deltas.has_texts or b'"message"' in payload):
            return True
        if _may_lack_member(payload):
            return True
        return name != PART_ADDED and self._must_rewrite(payload)

    def _must_rewrite(self, payload: bytes) -> bool:
        """Returns whether an event may have an item that the client gets in another form."""
        return self._calls.may_hold_call(payload) or (self._seal is not None and self._seal.may_need_seal(payload))

    def _forward_parsed(self, event_type: str, event: Json, frame: Frame) -> bytes:
        if event_type == "error":
            # Not sent: the terminal event reports the failure too, and official clients raise at the first of the two.
            self.failed = failure_in(event.get("error") or event)
            self.failed.redact(self._scrub)
            return b""
        if event_type in _LIFECYCLE_EVENTS:
            response = event["response"]
            if not isinstance(response, dict):
                return self.fail(_GARBLED)
            response |= self._own_fields
            if response.get("tools"):
                response["tools"] = remove_credentials(response["tools"])
            self.response = response
            if event_type in _TERMINAL_EVENTS:
                return self._forward_end(event, response)
            frame_out = sse.encode_event(event_type, orjson.dumps(event))
        elif not _has_own_values(event_type, event):
            return self.fail(_GARBLED)
        else:
            if event_type in DELTA_EVENTS:
                self._deltas.add(frame.payload)
            restored = self._restore_texts(event_type, event)
            inserted = self._insert_events(restored.events, event)
            if inserted or restored.is_filled:
                frame = build_frame(event_type, event)
            events = self._client_events(event_type, event)
            if events is None:
                return self.fail(_GARBLED)
            events = [*inserted, *events]
            self.has_content = self.has_content or event_type.startswith("response.")
            if len(events) == 1 and events[0] is event:
                frame_out = frame.raw if frame.event == event_type else sse.encode_event(event_type, frame.payload)
            else:
                frame_out = _encode_events(events)
        self._numbers.count += 1
        self._numbers.last_payload = frame.payload
        return frame_out

    def _restore_texts(self, event_type: str, event: Json) -> Restored:
        """Compares a whole text or item in an event with the deltas before it. Raises ProtocolViolation if it has
        another text."""
        if event_type in BEGIN_EVENTS:
            self._deltas.beginnings.add_event(event)
        elif event_type == ITEM_DONE:
            return self._deltas.end_item(read_output_index(event), event["item"])
        elif event_type == PART_DONE:
            if (prefix := PART_PREFIXES.get(event["part"].get("type"))) is not None:
                return self._deltas.end_text(prefix, event, event["part"], is_first=False)
        elif (prefix := DONE_EVENTS.get(event_type)) is not None:
            return self._deltas.end_text(prefix, event, event, is_first=True)
        return NOTHING_RESTORED

    def _insert_events(self, added: Sequence[Json], event: Json) -> list[Json]:
        """Returns the events to send before `event` for a text that had no deltas, or not all, and numbers all anew."""
        events: list[Json] = []
        for each in added:
            self._numbers.insert_before(each, event)
            if each["type"] == ITEM_ADDED and self._seal is not None:
                each["item"] = self._seal.seal_added_item(each["item"])
            events += self._calls.rewrite_event(each["type"], each)
        return events

    def _client_events(self, event_type: str, event: Json) -> Sequence[Json] | None:
        """Returns the events to send for one event of the upstream; None if its item has to be stored and cannot be."""
        if event_type in ARGUMENT_EVENTS:
            return self._calls.rewrite_event(event_type, event)
        if self._summaries is not None:
            event = self._summaries.rewrite_event(event)
        if event_type in _PART_EVENTS:
            part = complete_known_part(event["part"])
            return [event if part is event["part"] else {**event, "part": part}]
        if event_type not in _ITEM_EVENTS:
            return [event]
        *before, client_event = self._calls.rewrite_event(event_type, event)
        item = client_event.get("item")
        is_done = event_type == ITEM_DONE
        must_store = is_done and self._own.is_stored
        if (item := complete_item(item) if must_store else complete_known_item(item)) is not client_event.get("item"):
            client_event = {**client_event, "item": item}
        if self._seal is not None and is_item(item):
            sealed = self._seal.seal_done_item(item) if is_done else self._seal.seal_added_item(item)
            client_event = client_event if sealed is item else {**client_event, "item": sealed}
        if is_done:
            if must_store and not (isinstance(event["output_index"], int) and is_item(item)):
                return None
            self._done_items.add(event, client_event.get("item"))
        return [*before, client_event]

    def _forward_end(self, event: Json, response: Json) -> bytes:
        self.usage = usage.read_usage(response.get("usage"))
        response["usage"] = usage.fill_counts(response.get("usage"))
        if self._summaries is not None and response.get("output"):
            response["output"] = rewrite_output(response["output"])
        response["output"] = upstream_output = response.get("output") or []
        # vLLM 0.32 sends `response.completed` for a response whose status is incomplete.
        reported = f"response.{response.get('status')}"
        event["type"] = reported if reported in _TERMINAL_EVENTS else event["type"]
        if event["type"] == "response.completed" and (has_error(response) or is_cut_off(response)):
            response["status"] = "failed" if has_error(response) else "incomplete"
            event["type"] = f"response.{response['status']}"
        if response.get("status") not in TERMINAL_STATUSES:
            response["status"] = event["type"].removeprefix("response.")
        self.is_filtered = not self.has_content and is_response_filtered(response)
        if self.failed is not None:
            event["sequence_number"] = self._numbers.find_next()  # the number of the error event that was not sent
        if event["type"] == "response.failed":
            self.failed = scrub_failure(response, self._scrub)
        try:
            frames = self._complete_output(event, response, upstream_output)
        except ProtocolViolation as error:
            response["output"] = self._done_items.list_client_items()
            return self.fail(Failed("upstream_garbled", str(error), usage=self.usage))
        self.finish_reason = read_response_reason(response)
        return frames + self._end_response(event)

    def _complete_output(self, event: Json, response: Json, upstream_output: Any) -> bytes:
        """Completes the output of the terminal event by what the stream had, and returns the frames to send before it,
        with what the stream lacked of the output.

        Raises ProtocolViolation if the two are different answers, and for output that cannot be stored.
        """
        rest: list[Json] = []
        open_items = self._deltas.list_open_items()
        if has_items(upstream_output) and self.failed is None:
            if not upstream_output and response["status"] == "incomplete":
                ended = [(index, done.upstream) for index, done in self._done_items.read()]
                items = sorted([*ended, *self._deltas.build_open_items()], key=lambda entry: entry[0])
                upstream_output = [item for _, item in items]
            rest = self._insert_events(self._deltas.end_stream(upstream_output), event)
        output = self._calls.rewrite_output(upstream_output) if isinstance(upstream_output, list) else upstream_output
        output = seal_output(output, self._seal)
        response["output"] = output = complete_output(output) if self._own.is_stored else complete_known_items(output)
        ends: list[Json] = []
        if has_items(upstream_output):
            done_items = self._done_items.read()
            joined = join_output(upstream_output, output, done_items, open_items)
            response["output"] = [each.item for each in joined.items]
            if joined.has_other_form or self._deltas.has_other_form:
                self.unreported = (FINAL_TEXT,)
                response[LOSSES] = render_reply_losses(self.unreported)
            if self.failed is None:
                indexes = {index for index, _ in done_items}
                ends = build_missing_ends(joined.items, indexes, self._deltas.beginnings)
        is_empty = not response["output"] and response["status"] == "completed"
        if is_empty and self._numbers.find_last_type() in STREAMED_TEXTS:  # an item never ended
            raise ProtocolViolation("the upstream's response has no output, although the stream before it had")
        for each in ends:
            self._numbers.insert_before(each, event)
        return _encode_events([*rest, *self._calls.release_all(), *ends])

    def _end_response(self, event: Json) -> bytes:
        self.ended = True
        self.response = event["response"]
        if self.warnings:
            self.response[TOOL_WARNINGS] = self.warnings
        # It is encoded by `conclude`: until then the response may turn out to be unstored.
        self._closing_event = event
        return _encode_events(self._calls.release_all())


def _encode_events(events: Iterable[Json]) -> bytes:
    return b"".join([sse.encode_event(event["type"], orjson.dumps(event)) for event in events])


def _has_own_values(event_type: str, event: Json) -> bool:
    """Returns whether the text or item of an event has the type that clients expect. A final text may be missing."""
    if event_type in _ITEM_EVENTS:
        return _has_item(event)
    if event_type in _PART_EVENTS:
        return isinstance(event.get("part"), dict)
    key = _TEXT_KEYS.get(event_type)
    return key is None or isinstance(event.get(key), str) or (key != "delta" and event.get(key) is None)


def _has_item(event: Json) -> bool:
    """Returns whether an event has an item with lists of objects, and a name if it is a call that the client runs."""
    item = event.get("item")
    if not isinstance(item, dict):
        return False
    if not isinstance(item.get("type"), str):
        return True  # whoever stores it, refuses it
    if item["type"] in _CALL_TYPES and not (isinstance(item.get("name"), str) and item["name"]):
        return False
    lists = [item[key] for key in PART_LISTS.get(item["type"], ()) if item.get(key) is not None]
    return all(isinstance(parts, list) and all(isinstance(part, dict) for part in parts) for parts in lists)


def _may_lack_member(payload: bytes) -> bool:
    """Returns whether an item or a part may lack a list that clients expect."""
    if _MISSING_MEMBER.search(payload) is not None:
        return True
    return any(kind in payload and member not in payload for kind, member in _REQUIRED_MEMBERS)


def _looks_whole(payload: bytes) -> bool:
    """Returns whether bytes look like one JSON object in valid UTF-8. Parsing them costs more than relaying them."""
    return payload[:1] == b"{" and payload[-1:] == b"}" and (payload.isascii() or _is_utf8(payload))


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(payload: bytes) -> bool:
    """Returns whether bytes are JSON. The last bytes before an upstream closed may be half an event."""
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return False
    return True
