"""A Responses upstream's stream to a Responses client: the same frames, watched."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import orjson

from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES, DONE_PAYLOAD, Frame, FrameDecoder
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Item, Json
from translation.responses import usage
from translation.responses.failures import failure_in
from translation.responses.relaying.calls import ARGUMENT_EVENTS, ITEM_DONE, RelayedCalls
from translation.responses.snapshot import ItemSeal, Snapshot

_START_EVENTS = frozenset({"response.created", "response.queued", "response.in_progress"})
_TERMINAL_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_LIFECYCLE_EVENTS = _START_EVENTS | _TERMINAL_EVENTS

_TERMINAL_STATUSES = ("completed", "incomplete", "failed", "cancelled")
"""Statuses of responses that have ended."""

_ITEM_ADDED = "response.output_item.added"
_ITEM_EVENTS = frozenset({_ITEM_ADDED, ITEM_DONE})
_INSPECTED_EVENTS = _LIFECYCLE_EVENTS | _ITEM_EVENTS | ARGUMENT_EVENTS
"""Events that may have to be opened; all others pass without a further look."""

_STORE_KEYS = ("id", "created_at", "store", "background", "previous_response_id", "conversation", "metadata")
"""Keys of a response that whoever keeps it decides."""

_TRUNCATED = Failed("upstream_truncated", "the upstream closed its stream before the response was complete")
_GARBLED = Failed("upstream_garbled", "the upstream sent an event that is not JSON of the Responses API")


class ResponsesRelay:
    """Reads in, whole LF frames out; `conclude` returns exactly one terminal event and [DONE].

    Only lifecycle frames are opened, a handful per stream, which carry the model's name, which is ours to say, and the
    last one the whole response; those of items with something to `seal`; and those of calls, which are as `calls` says:
    the terminal event has `tool_warnings` of those that cannot be read. Every other frame leaves as it came, known or
    not; one without an `event:` line gets it. `model` is the name the client knows; `None` leaves the upstream's.
    `kept`: the response is kept here, so its id, time and state are those of `head` too, its items are remembered, and
    one whose output cannot be kept fails. `head` is the object from `new_response`: it fails in the place of a response
    the upstream never began.
    Raises ProtocolViolation for a frame over `max_line_bytes`.
    """

    template = None
    """No short way: its events are numbered by who sent them."""

    def __init__(
        self,
        *,
        model: str | None,
        initial_response: Json,
        is_stored: bool = False,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        scrub: Callable[[str], str] = str,
        seal: ItemSeal | None = None,
        calls: CallRules = DEFAULT_RULES,
    ) -> None:
        self.has_content = False
        """Whether anything of the answer went out: from then on the request cannot be sent again."""
        self.failed: Failed | None = None
        self.response: Json | None = None
        """The latest snapshot; after the end, the finished response."""
        self.usage: Usage | None = None
        self._overrides = _own_fields(initial_response, model=model, is_stored=is_stored)
        self._stored_items: dict[int, Item] | None = {} if is_stored else None
        self._initial_response = initial_response
        self._scrub = scrub
        self._seal = seal
        self._calls = RelayedCalls(calls)
        self._frames = FrameDecoder(max_frame_bytes)
        self._last_payload = b""
        self._event_count = 0
        self.ended = False
        """Whether the turn is over: `response` is final and `conclude` has the terminal event."""
        self._closing_frames = b""
        self._is_concluded = False

    @property
    def warnings(self) -> list[Json]:
        """What is wrong with calls that cannot be read."""
        return self._calls.warnings

    def feed(self, read: bytes) -> bytes:
        """Take one read; return the frames it completed, possibly none."""
        return b"".join([self._forward(frame) for frame in self._frames.feed(read)])

    def finish(self) -> bytes:
        """The upstream closed. Without a terminal event the client is told that the response failed."""
        frames = b"".join([self._forward(frame) for frame in self._frames.finish() if _is_json(frame.payload)])
        return frames if self.ended else frames + self.fail(_TRUNCATED)

    def fail(self, failed: Failed) -> bytes:
        """Ends the response in failure, also in the place of an end that `conclude` has not returned yet.

        Returns the frames that come before the terminal event. An `error` event that the upstream sent before says
        more than how its connection went down after it.
        """
        if self._is_concluded:
            return b""
        self.failed = self.failed or failed
        # Clients want to hear of a response before it ends.
        beginning = b"" if self._event_count else self._start_frames()
        response = self.response or self._initial_response
        snapshot = Snapshot(response, clock=int)
        snapshot.apply(self.failed)
        snapshot.response["output"] = response.get("output") or self._stored_output()
        event = {
            "type": "response.failed",
            "sequence_number": self._next_number(),
            "response": snapshot.response,
        }
        return beginning + self._end_response(event)

    def conclude(self) -> bytes:
        """Returns the terminal event and [DONE], once, after `ended`; nothing the second time."""
        if not self.ended or self._is_concluded:
            return b""
        self._is_concluded = True
        return self._closing_frames

    def _start_frames(self) -> bytes:
        frames = b""
        for event_type in ("response.created", "response.in_progress"):
            event = {"type": event_type, "sequence_number": self._event_count, "response": self._initial_response}
            frames += sse.encode_event(event_type, orjson.dumps(event))
            self._event_count += 1
        return frames

    def _forward(self, frame: Frame) -> bytes:
        if self.ended:
            return b""
        name = frame.event
        must_parse = name in _INSPECTED_EVENTS and self._must_parse(name, frame.payload)
        if name is not None and name.startswith("response.") and not must_parse and _looks_whole(frame.payload):
            self.has_content = True
            self._event_count += 1
            self._last_payload = frame.payload
            return frame.raw
        if frame.payload == DONE_PAYLOAD:
            return self.fail(_TRUNCATED)
        try:
            event = orjson.loads(frame.payload)
            return self._forward_parsed(event["type"], event, frame)
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
            return self.fail(_GARBLED)

    def _must_parse(self, name: str | None, payload: bytes) -> bool:
        if name in ARGUMENT_EVENTS:
            return bool(self._calls.watched_indexes)
        if name in _LIFECYCLE_EVENTS or (name == ITEM_DONE and self._stored_items is not None):
            return True
        return self._calls.may_hold_call(payload) or (self._seal is not None and self._seal.may_need_seal(payload))

    def _forward_parsed(self, event_type: str, event: Json, frame: Frame) -> bytes:
        if event_type == "error":
            # Held back: the terminal event says it too, and official clients raise at the first of the two.
            self.failed = failure_in(event.get("error") or event)
            self.failed.message = self._scrub(self.failed.message)
            return b""
        if event_type in _LIFECYCLE_EVENTS:
            response = event["response"]
            if not isinstance(response, dict):
                return self.fail(_GARBLED)
            response |= self._overrides
            self.response = response
            if event_type in _TERMINAL_EVENTS:
                return self._forward_end(event, response)
            frame_out = sse.encode_event(event_type, orjson.dumps(event))
        else:
            events = self._client_events(event_type, event)
            if events is None:
                return self.fail(_GARBLED)
            self.has_content = self.has_content or event_type.startswith("response.")
            if len(events) == 1 and events[0] is event:
                frame_out = frame.raw if frame.event == event_type else sse.encode_event(event_type, frame.payload)
            else:
                frame_out = _encode_events(events)
        self._event_count += 1
        self._last_payload = frame.payload
        return frame_out

    def _client_events(self, event_type: str, event: Json) -> Sequence[Json] | None:
        """An event as the client is told it; None for one of an item that is kept and cannot be."""
        if event_type in ARGUMENT_EVENTS:
            return self._calls.rewrite_event(event_type, event)
        if event_type not in _ITEM_EVENTS:
            return [event]
        *before, client_event = self._calls.rewrite_event(event_type, event)
        item = client_event.get("item")
        is_done = event_type == ITEM_DONE
        if self._seal is not None and _is_item(item):
            sealed = self._seal.seal_done_item(item) if is_done else self._seal.seal_added_item(item)
            client_event = client_event if sealed is item else {**client_event, "item": sealed}
        if is_done and self._stored_items is not None:
            if not (isinstance(event["output_index"], int) and _is_item(item)):
                return None
            self._stored_items[event["output_index"]] = client_event["item"]
        return [*before, client_event]

    def _forward_end(self, event: Json, response: Json) -> bytes:
        self.usage = usage.read_usage(response.get("usage"))
        if not response.get("output"):
            response["output"] = self._stored_output()
        elif self._stored_items is not None and not _has_items(response["output"]):
            response["output"] = self._stored_output()
            return self.fail(_GARBLED)
        elif isinstance(response["output"], list):
            response["output"] = self._calls.rewrite_output(response["output"])
        # vLLM 0.32 says `response.completed` of a response whose status is incomplete.
        reported = f"response.{response.get('status')}"
        event["type"] = reported if reported in _TERMINAL_EVENTS else event["type"]
        if response.get("status") not in _TERMINAL_STATUSES:
            response["status"] = event["type"].removeprefix("response.")
        if self.failed is not None:
            event["sequence_number"] = self._next_number()  # the number of the error event that was held back
        response["output"] = _seal_output(response["output"], self._seal)
        if event["type"] == "response.failed":
            self.failed = _scrub_failure(response, self._scrub)
        return self._end_response(event)

    def _end_response(self, event: Json) -> bytes:
        self.ended = True
        self.response = event["response"]
        if self.warnings:
            self.response[TOOL_WARNINGS] = self.warnings
        self._closing_frames = sse.encode_event(event["type"], orjson.dumps(event)) + sse.DONE_FRAME
        return _encode_events(self._calls.release_all())

    def _stored_output(self) -> list[Item]:
        """The items that were complete, as far as they are remembered."""
        return [item for _, item in sorted((self._stored_items or {}).items())]

    def _next_number(self) -> int:
        """Upstreams count from 0 without gaps; where one does not, its last number counts."""
        try:
            return int(orjson.loads(self._last_payload)["sequence_number"]) + 1
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return self._event_count


def relay_response(
    body: Json,
    *,
    model: str | None,
    initial_response: Json | None = None,
    seal: ItemSeal | None = None,
    calls: CallRules = DEFAULT_RULES,
) -> Json:
    """A whole response object for the client, under the name it knows the model by; one that is kept here under the id
    and with the state of `head`; its items as `seal` and `calls` say, with `tool_warnings` as on a stream.

    One that failed is for `failure_of` to find first. Raises ProtocolViolation when it is none, or not whole.
    """
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        raise ProtocolViolation("the upstream answered with something that is no response")
    ours = _own_fields(initial_response or {}, model=model, is_stored=initial_response is not None)
    relayed = RelayedCalls(calls)
    if (output := _seal_output(relayed.rewrite_output(body["output"]), seal)) is not body["output"]:
        ours |= {"output": output}
    if relayed.warnings:
        ours |= {TOOL_WARNINGS: relayed.warnings}
    if initial_response is not None:
        status = body.get("status") or "completed"
        if status not in _TERMINAL_STATUSES or not _has_items(body["output"]):
            raise ProtocolViolation("the upstream answered with a response that is not whole")
        ours |= {"status": status}
    return body | ours if ours else body


def _own_fields(initial_response: Json, *, model: str | None, is_stored: bool) -> Json:
    ours = {key: initial_response[key] for key in _STORE_KEYS if key in initial_response} if is_stored else {}
    return ours if model is None else {**ours, "model": model}


def _has_items(output: object) -> bool:
    return isinstance(output, list) and all(map(_is_item, output))


def _seal_output(output: list[Any], seal: ItemSeal | None) -> list[Any]:
    """The items of a whole response as a client is told them; the list itself where nothing has to be sealed."""
    if seal is None or not isinstance(output, list):
        return output
    sealed = [seal.seal_done_item(item) if _is_item(item) else item for item in output]
    return sealed if any(one is not other for one, other in zip(sealed, output, strict=True)) else output


def _encode_events(events: Iterable[Json]) -> bytes:
    return b"".join([sse.encode_event(event["type"], orjson.dumps(event)) for event in events])


def _is_item(item: object) -> TypeGuard[Item]:
    """Whether it can be kept and said again."""
    return isinstance(item, dict) and isinstance(item.get("type"), str)


def failure_of_response(body: Json) -> Failed | None:
    """Why a whole response is no answer, in the upstream's words."""
    if body.get("object") != "response" or body.get("status") not in ("failed", "cancelled"):
        return None
    default_message = "the upstream cancelled the response" if body["status"] == "cancelled" else None
    return failure_in(body.get("error") or default_message, body)


def _scrub_failure(response: Json, scrub: Callable[[str], str]) -> Failed:
    """What went wrong, with only those of the upstream's words left in `response` that a client may read."""
    error = response.get("error")
    failed = failure_in(error, response)
    failed.message = scrub(failed.message)
    if failed.code == "upstream_unauthorized":
        response["error"] = {"code": "server_error", "message": failed.message}
    elif isinstance(error, dict):
        response["error"] = {**error, "message": failed.message}
    return failed


def _looks_whole(payload: bytes) -> bool:
    """Whether it looks like one JSON object in good UTF-8; reading it would cost more than relaying it."""
    return payload[:1] == b"{" and payload[-1:] == b"}" and (payload.isascii() or _is_utf8(payload))


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(payload: bytes) -> bool:
    """What an upstream leaves when it closes may be a whole event, or half of one."""
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return False
    return True
