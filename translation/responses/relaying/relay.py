"""A Responses upstream's stream to a Responses client: the same frames, watched."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import orjson

from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES, DONE_PAYLOAD, Frame, FrameDecoder
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import WARNINGS
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Item, Json
from translation.responses import usage
from translation.responses.failures import failure_in
from translation.responses.relaying.calls import ARGUMENTS, ITEM_DONE, RelayedCalls
from translation.responses.snapshot import ItemSeal, Snapshot

_BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_OPENED = _BEGINNINGS | _ENDS

_ENDED = ("completed", "incomplete", "failed", "cancelled")
"""Statuses of responses that have ended."""

_ITEM_ADDED = "response.output_item.added"
_ITEM_EVENTS = frozenset({_ITEM_ADDED, ITEM_DONE})
_LOOKED_AT = _OPENED | _ITEM_EVENTS | ARGUMENTS
"""Events that may have to be opened; all others pass without a further look."""

_STATE = ("id", "created_at", "store", "background", "previous_response_id", "conversation", "metadata")
"""Keys of a response that whoever keeps it decides."""

_TRUNCATED = Failed("upstream_truncated", "the upstream closed its stream before the response was complete")
_GARBLED = Failed("upstream_garbled", "the upstream sent an event that is not JSON of the Responses API")


class ResponsesRelay:
    """Reads in, whole LF frames out, ending in exactly one terminal event and [DONE].

    Only lifecycle frames are opened, a handful per stream, which carry the model's name, which is ours to say, and the
    last one the whole response; those of items with something to `seal`; and those of calls, which are as `calls` says:
    the terminal event has `tool_warnings` of those that cannot be read. Every other frame leaves as it came, known or
    not; one without an `event:` line gets it. `model` is the name the client knows; `None` leaves the upstream's.
    `kept`: the response is kept here, so its id, time and state are those of `head` too, its items are remembered, and
    one whose output cannot be kept fails. `head` is the object from `new_response`: it fails in the place of a response
    the upstream never began.
    Raises ProtocolViolation for a frame over `max_line_bytes`.
    """

    alike = None
    """No short way: its events are numbered by who sent them."""

    def __init__(
        self,
        *,
        model: str | None,
        head: Json,
        kept: bool = False,
        max_line_bytes: int = DEFAULT_MAX_FRAME_BYTES,
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
        self._ours = _said_here(head, model=model, kept=kept)
        self._items: dict[int, Item] | None = {} if kept else None
        self._head = head
        self._scrub = scrub
        self._seal = seal
        self._calls = RelayedCalls(calls)
        self._frames = FrameDecoder(max_line_bytes)
        self._last = b""
        self._count = 0
        self.ended = False
        """Whether the last frames were made."""
        self._end_bytes = 0

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
        return frames + self.fail(_TRUNCATED)

    def fail(self, failed: Failed) -> bytes:
        """The closing frames after a failure here or on the way; nothing when the stream has ended.

        An `error` event the upstream sent before says more than how its connection went down after it.
        """
        if self.ended:
            return b""
        self.failed = self.failed or failed
        # Clients want to hear of a response before it ends.
        beginning = b"" if self._count else self._begin()
        response = self.response or self._head
        snapshot = Snapshot(response, clock=int)
        snapshot.apply(self.failed)
        snapshot.response["output"] = response.get("output") or self._output()
        event = {
            "type": "response.failed",
            "sequence_number": self._next_number(),
            "response": snapshot.response,
        }
        return beginning + self._end(event)

    def withdraw(self, frames: bytes) -> bytes:
        """`frames`, the last that were made, without the terminal event: as if it had not come yet."""
        self.ended = False
        return frames[: -self._end_bytes]

    def _begin(self) -> bytes:
        frames = b""
        for event_type in ("response.created", "response.in_progress"):
            event = {"type": event_type, "sequence_number": self._count, "response": self._head}
            frames += sse.encode(event_type, orjson.dumps(event))
            self._count += 1
        return frames

    def _forward(self, frame: Frame) -> bytes:
        if self.ended:
            return b""
        name = frame.event
        opened = name in _LOOKED_AT and self._is_opened(name, frame.payload)
        if name is not None and name.startswith("response.") and not opened and _is_whole(frame.payload):
            self.has_content = True
            self._count += 1
            self._last = frame.payload
            return frame.raw
        if frame.payload == DONE_PAYLOAD:
            return self.fail(_TRUNCATED)
        try:
            event = orjson.loads(frame.payload)
            return self._forward_opened(event["type"], event, frame)
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
            return self.fail(_GARBLED)

    def _is_opened(self, name: str | None, payload: bytes) -> bool:
        if name in ARGUMENTS:
            return bool(self._calls.listening)
        if name in _OPENED or (name == ITEM_DONE and self._items is not None):
            return True
        return self._calls.concerns(payload) or (self._seal is not None and self._seal.concerns(payload))

    def _forward_opened(self, event_type: str, event: Json, frame: Frame) -> bytes:
        if event_type == "error":
            # Held back: the terminal event says it too, and official clients raise at the first of the two.
            self.failed = failure_in(event.get("error") or event)
            self.failed.message = self._scrub(self.failed.message)
            return b""
        if event_type in _OPENED:
            response = event["response"]
            if not isinstance(response, dict):
                return self.fail(_GARBLED)
            response |= self._ours
            self.response = response
            if event_type in _ENDS:
                return self._forward_end(event, response)
            frame_out = sse.encode(event_type, orjson.dumps(event))
        else:
            told = self._told(event_type, event)
            if told is None:
                return self.fail(_GARBLED)
            self.has_content = self.has_content or event_type.startswith("response.")
            if len(told) == 1 and told[0] is event:
                frame_out = frame.raw if frame.event == event_type else sse.encode(event_type, frame.payload)
            else:
                frame_out = _encoded(told)
        self._count += 1
        self._last = frame.payload
        return frame_out

    def _told(self, event_type: str, event: Json) -> Sequence[Json] | None:
        """An event as the client is told it; None for one of an item that is kept and cannot be."""
        if event_type in ARGUMENTS:
            return self._calls.taken(event_type, event)
        if event_type not in _ITEM_EVENTS:
            return [event]
        *before, told = self._calls.taken(event_type, event)
        item = told.get("item")
        is_done = event_type == ITEM_DONE
        if self._seal is not None and _is_item(item):
            sealed = self._seal.ended(item) if is_done else self._seal.begun(item)
            told = told if sealed is item else {**told, "item": sealed}
        if is_done and self._items is not None:
            if not (isinstance(event["output_index"], int) and _is_item(item)):
                return None
            self._items[event["output_index"]] = told["item"]
        return [*before, told]

    def _forward_end(self, event: Json, response: Json) -> bytes:
        self.usage = usage.read(response.get("usage"))
        if not response.get("output"):
            response["output"] = self._output()
        elif self._items is not None and not _has_items(response["output"]):
            response["output"] = self._output()
            return self.fail(_GARBLED)
        elif isinstance(response["output"], list):
            response["output"] = self._calls.whole(response["output"])
        # vLLM 0.32 says `response.completed` of a response whose status is incomplete.
        said = f"response.{response.get('status')}"
        event["type"] = said if said in _ENDS else event["type"]
        if response.get("status") not in _ENDED:
            response["status"] = event["type"].removeprefix("response.")
        if self.failed is not None:
            event["sequence_number"] = self._next_number()  # the number of the error event that was held back
        response["output"] = _sealed(response["output"], self._seal)
        if event["type"] == "response.failed":
            self.failed = _tell_failure(response, self._scrub)
        return self._end(event)

    def _end(self, event: Json) -> bytes:
        self.ended = True
        self.response = event["response"]
        if self.warnings:
            self.response[WARNINGS] = self.warnings
        rest = _encoded(self._calls.released())
        end = sse.encode(event["type"], orjson.dumps(event)) + sse.DONE
        self._end_bytes = len(end)
        return rest + end

    def _output(self) -> list[Item]:
        """The items that were complete, as far as they are remembered."""
        return [item for _, item in sorted((self._items or {}).items())]

    def _next_number(self) -> int:
        """Upstreams count from 0 without gaps; where one does not, its last number counts."""
        try:
            return int(orjson.loads(self._last)["sequence_number"]) + 1
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return self._count


def relay_response(
    body: Json,
    *,
    model: str | None,
    head: Json | None = None,
    seal: ItemSeal | None = None,
    calls: CallRules = DEFAULT_RULES,
) -> Json:
    """A whole response object for the client, under the name it knows the model by; one that is kept here under the id
    and with the state of `head`; its items as `seal` and `calls` say, with `tool_warnings` as on a stream.

    One that failed is for `failure_of` to find first. Raises ProtocolViolation when it is none, or not whole.
    """
    if not isinstance(body, dict) or not isinstance(body.get("output"), list):
        raise ProtocolViolation("the upstream answered with something that is no response")
    ours = _said_here(head or {}, model=model, kept=head is not None)
    relayed = RelayedCalls(calls)
    if (output := _sealed(relayed.whole(body["output"]), seal)) is not body["output"]:
        ours |= {"output": output}
    if relayed.warnings:
        ours |= {WARNINGS: relayed.warnings}
    if head is not None:
        status = body.get("status") or "completed"
        if status not in _ENDED or not _has_items(body["output"]):
            raise ProtocolViolation("the upstream answered with a response that is not whole")
        ours |= {"status": status}
    return body | ours if ours else body


def _said_here(head: Json, *, model: str | None, kept: bool) -> Json:
    ours = {key: head[key] for key in _STATE if key in head} if kept else {}
    return ours if model is None else {**ours, "model": model}


def _has_items(output: object) -> bool:
    return isinstance(output, list) and all(map(_is_item, output))


def _sealed(output: list[Any], seal: ItemSeal | None) -> list[Any]:
    """The items of a whole response as a client is told them; the list itself where nothing has to be sealed."""
    if seal is None or not isinstance(output, list):
        return output
    told = [seal.ended(item) if _is_item(item) else item for item in output]
    return told if any(one is not other for one, other in zip(told, output, strict=True)) else output


def _encoded(events: Iterable[Json]) -> bytes:
    return b"".join([sse.encode(event["type"], orjson.dumps(event)) for event in events])


def _is_item(item: object) -> TypeGuard[Item]:
    """Whether it can be kept and said again."""
    return isinstance(item, dict) and isinstance(item.get("type"), str)


def failure_of(body: Json) -> Failed | None:
    """Why a whole response is no answer, in the upstream's words."""
    if body.get("object") != "response" or body.get("status") not in ("failed", "cancelled"):
        return None
    told = "the upstream cancelled the response" if body["status"] == "cancelled" else None
    return failure_in(body.get("error") or told, body)


def _tell_failure(response: Json, scrub: Callable[[str], str]) -> Failed:
    """What went wrong, with only those of the upstream's words left in `response` that a client may read."""
    error = response.get("error")
    failed = failure_in(error, response)
    failed.message = scrub(failed.message)
    if failed.code == "upstream_unauthorized":
        response["error"] = {"code": "server_error", "message": failed.message}
    elif isinstance(error, dict):
        response["error"] = {**error, "message": failed.message}
    return failed


def _is_whole(payload: bytes) -> bool:
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
