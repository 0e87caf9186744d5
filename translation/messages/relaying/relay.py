"""Relays the stream of an upstream with the Messages API to its client. Forwards most frames without parsing them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from translation.decoding.context_overflow import find_bare_error
from translation.decoding.surrogates import SurrogateJoiner
from translation.decoding.usage import read_message_usage
from translation.encoding.event_encoder import StreamEnd
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.messages.client.messages_errors import build_error_body, parse_failure
from translation.messages.client.reply_objects import complete_usage
from translation.messages.relaying.calls import (
    BROKEN_INPUT,
    CUT_STOP_REASONS,
    ODD_STOP_REASON,
    REFUSAL,
    RelayedInputs,
    correct_stop_reason,
)
from translation.messages.relaying.open_blocks import OpenBlocks
from translation.messages.upstream.decode import read_stop_reason
from translation.representation.events import Failed, FinishReason, Usage
from translation.representation.json_types import Json

_CONTENT_EVENTS: Final = frozenset({"content_block_delta", "content_block_stop"})
"""Names of events that a retry would repeat. A block that has only begun is empty."""

_BEFORE_START: Final = frozenset({"ping"})
_BETWEEN_BLOCKS: Final = frozenset({"ping", "content_block_start"})
_WITHIN_BLOCK: Final = _CONTENT_EVENTS | _BETWEEN_BLOCKS
"""Names of events that may come before the message, between its blocks, and in a block. They are forwarded as bytes,
most of them without parsing."""

_BLOCK_ENDS: Final = frozenset({"content_block_start", "content_block_stop"})

_MESSAGE_EVENTS: Final = _CONTENT_EVENTS | {"content_block_start", "message_delta", "message_stop"}
"""Names of events that belong to a message that has begun."""


_REQUIRED_AT_END: Final = ("output_tokens",)
"""The counts that the usage of `message_delta` has in any case."""

_NOT_JSON: Final = "an event of the upstream's stream is not JSON"

_BROKEN_OFF: Final = Failed("upstream_truncated", "the upstream's reply broke off before it was finished")


class MessagesRelay(StreamEnd):
    """Takes the upstream's bytes, and returns whole frames with LF line ends.

    `model` replaces the model's name; None keeps the upstream's. `scrub` redacts the upstream's error messages.
    `accepts_unchecked_inputs`: the client takes inputs of calls that are no JSON.

    A stream that breaks off or reports a failure sets `failed`. After content the closing frame is then the event
    `error`, with the upstream's own error object if it sent one. Before content nothing more is returned, because the
    reply can still become an HTTP error with its own status. If it cannot, call `fail`, which ends the stream.
    """

    def __init__(
        self,
        *,
        model: str | None,
        max_frame_bytes: int = sse.DEFAULT_MAX_FRAME_BYTES,
        scrub: Callable[[str], str] = str,
        accepts_unchecked_inputs: bool = False,
    ) -> None:
        super().__init__()
        self._checks_inputs = not accepts_unchecked_inputs
        self.has_content = False
        """Whether content was forwarded. Then the request must not be retried."""
        self.is_filtered = False
        """Whether the model refused before it had content, which is what a content filter is in this API."""
        self.response: Json | None = None
        """Always None: messages are not stored."""
        self.usage: Usage | None = None
        """The token counts so far: of the start of the message, and at its end of the whole reply."""
        self.warnings: Sequence[Json] = ()
        """Always empty: the form of a call is not changed, and one whose input is cut off fails the reply."""
        self.unreported: Sequence[str] = ()
        """Always empty: the client gets what the upstream sends."""
        self.template: None = None
        """Always None: no read takes the fast path."""
        self._model = model
        self._scrub = scrub
        self._frames = sse.FrameDecoder(max_frame_bytes)
        self._characters = SurrogateJoiner()
        self._stopped = False
        self._has_stop_reason = False
        self.finish_reason: FinishReason | None = None
        """Why the message ended; None before."""
        self._cut_reason: str | None = None
        """The stop reason that says that the answer was cut off."""
        self._forwardable = _BEFORE_START
        """The names of the events that may come now and are forwarded as bytes."""
        self._blocks = OpenBlocks()
        self._calls = RelayedInputs()

    def feed(self, read: bytes) -> bytes:
        """Takes one upstream read. Returns the frames to send, possibly none."""
        if self._stopped:
            return b""
        try:
            frames = self._frames.feed(read)
        except ProtocolViolation as violation:
            return self._stop(Failed("upstream_garbled", str(violation)))
        return self._forward_all(frames)

    def finish(self) -> bytes:
        """Ends the stream, because the upstream closed. Returns the frames to send before the closing frames."""
        if self._stopped:
            return b""
        rest = self._forward_all(self._frames.finish(), last=True)
        if self._stopped:
            return rest
        return rest + self._stop(replace(_BROKEN_OFF))

    def fail(self, failed: Failed) -> bytes:
        """Ends the stream in failure. This replaces an end that `conclude` has not returned yet.

        Returns the frames to send before the closing frames: always none in this API.
        """
        if not self._is_concluded:
            self.failed = self.failed or failed
            body = build_error_body(self.failed.message, code=self.failed.code)
            self._close(sse.encode_event("error", orjson.dumps(body)))
        return b""

    def _forward_all(self, frames: Sequence[sse.Frame], *, last: bool = False) -> bytes:
        forwarded: list[bytes] = []
        for frame in frames:
            forwarded.append(self._forward(frame, last=last))
            if self._stopped:
                break
        return b"".join(forwarded)

    def _forward(self, frame: sse.Frame, *, last: bool) -> bytes:
        """Returns what to send for a frame. `last`: the upstream closed after the frame, or in the middle of it."""
        name = frame.event
        if (payload := self._characters.rewrite(frame.payload)) is not frame.payload:
            raw = sse.encode_data(payload) if name is None else sse.encode_event(name, payload)
            frame = sse.Frame(name, payload, raw)
        is_forwardable = name in self._forwardable and _is_object(payload)
        try:
            if is_forwardable and self._is_plain(name, payload):
                payload.decode()  # raises for bytes that are not UTF-8, as parsing would
                return frame.raw
            event = orjson.loads(payload)
        except (orjson.JSONDecodeError, UnicodeDecodeError):
            return self._stop(replace(_BROKEN_OFF) if last else Failed("upstream_garbled", _NOT_JSON))
        if not isinstance(event, dict):
            return self._stop(Failed("upstream_garbled", "an event of the upstream's stream is not a JSON object"))
        if not isinstance(event.get("type"), str):
            return self._stop(replace(_BROKEN_OFF) if last else _read_untyped_event(event))
        try:
            sse.require_event_name(event["type"])
            if is_forwardable and event["type"] == name:
                if not self._read_block(event, payload):
                    return b""
                self.has_content = self.has_content or name in _CONTENT_EVENTS
                return frame.raw
            return self._forward_event(event, frame)
        except ProtocolViolation as violation:
            return self._stop(Failed("upstream_garbled", str(violation)))

    def _is_plain(self, name: str | None, payload: bytes) -> bool:
        """Returns whether an event that may come now needs no parsing: a ping, or a delta that is like the one before
        it, unless calls are checked in it."""
        if name == "content_block_delta":
            return not self._calls.is_within_call and self._blocks.is_like_newest(payload)
        return name == "ping"

    def _read_block(self, event: Json, payload: bytes) -> bool:
        """Reads an event that may be about a block. Returns and raises what `OpenBlocks.read` does."""
        if not self._blocks.read(event, payload):
            return False
        self._calls.read(event)
        if event["type"] in _BLOCK_ENDS:
            self._forwardable = _WITHIN_BLOCK if self._blocks else _BETWEEN_BLOCKS
        return True

    def _forward_event(self, event: Json, frame: sse.Frame) -> bytes:
        kind = event.get("type")
        if kind in _MESSAGE_EVENTS and self._forwardable is _BEFORE_START:
            return self._stop(Failed("upstream_garbled", f"the upstream sent {kind} before message_start"))
        if not self._read_block(event, frame.payload):
            return b""
        match event:
            case {"type": "error"}:
                return self._report(event)
            case {"type": "message_stop"} if not self._has_stop_reason:
                return self._stop(replace(_BROKEN_OFF))
            case {"type": "message_delta", "delta": {"stop_reason": reason}} if not isinstance(reason, str | None):
                return self._stop(Failed("upstream_garbled", ODD_STOP_REASON))
            case {"type": "message_delta", "delta": {"stop_reason": str(reason)}} if self._has_broken_call(reason):
                return self._stop(Failed("upstream_garbled", BROKEN_INPUT))
            case {"type": "message_stop"} if self._characters.has_halves and self._cut_reason is None:
                return self._stop(Failed("upstream_garbled", "the upstream's text ends within a character"))
            case {"type": "message_stop"}:
                self._close(_to_frame(event, frame))
                return b""
            case {"type": "message_start"} if self._forwardable is not _BEFORE_START:
                return self._stop(Failed("upstream_garbled", "the upstream began a second message in the same reply"))
            case {"type": "message_start", "message": dict(message)}:
                self._forwardable = _BETWEEN_BLOCKS
                self.usage = read_message_usage(message.get("usage"))
                if (completed := self._complete_head(message)) is not message:
                    return sse.encode_event("message_start", orjson.dumps({**event, "message": completed}))
            case {"type": "message_delta"}:
                if self._read_end(event):
                    return sse.encode_event("message_delta", orjson.dumps(event))
        # Servers may leave the name of the event out. And there may be events that are newer than this table.
        self.has_content = self.has_content or event.get("type") in _CONTENT_EVENTS
        return _to_frame(event, frame)

    def _complete_head(self, message: Json) -> Json:
        """Returns the message of `message_start` with the client's name of the model, and with all counts that clients
        require. Returns `message` itself if nothing changes."""
        usage = complete_usage(message.get("usage"), self.usage)
        if usage is not message.get("usage"):
            message = {**message, "usage": usage}
        return message if self._model is None else {**message, "model": self._model}

    def _has_broken_call(self, reason: str) -> bool:
        """Returns whether a call is not complete, although the reason says that the message is."""
        is_cut = reason in CUT_STOP_REASONS or self._cut_reason is not None
        return self._checks_inputs and self._calls.has_broken_input and not is_cut

    def _read_end(self, event: Json) -> bool:
        """Reads the usage and the stop reason of an event `message_delta`, of which there may be several.

        Repairs it in place: a later stop reason does not replace one that says that the answer was cut off, because
        clients take the last, and usage without the count of the output gets the one that is known. Returns whether it
        was changed.
        """
        changed = False
        match event:
            case {"delta": {"stop_reason": reason} as delta} if reason is not None:
                self._has_stop_reason = True
                if (corrected := correct_stop_reason(reason, has_calls=self._calls.has_calls)) != reason:
                    reason = delta["stop_reason"] = corrected
                    changed = True
                if self._cut_reason is not None and reason != self._cut_reason:
                    delta["stop_reason"], changed = self._cut_reason, True
                elif reason in CUT_STOP_REASONS:
                    self._cut_reason = reason
                self.finish_reason = read_stop_reason(delta["stop_reason"])
                self.is_filtered = reason == REFUSAL and not self.has_content
        usage = event.get("usage")
        # Searches and other tools of the upstream add to the input while the reply is produced.
        self.usage = read_message_usage(usage, self.usage)
        event["usage"] = complete_usage(usage, self.usage, _REQUIRED_AT_END)
        return changed or event["usage"] is not usage

    def _report(self, event: Json) -> bytes:
        """Records an error that the upstream reports. After content the error ends the stream."""
        failed = parse_failure(event.get("error"))
        self._stop(failed)
        if self.has_content:
            self._close(sse.encode_event("error", orjson.dumps(_with_message(event, failed.message))))
        return b""

    def _stop(self, failed: Failed) -> bytes:
        """Notes a failure, and after content ends the stream with it. Returns the frames to send, if any."""
        failed.redact(self._scrub)
        self.failed = failed
        self._stopped = True
        return self.fail(failed) if self.has_content else b""

    def _close(self, frames: bytes) -> None:
        self.ended = self._stopped = True
        self.closing_frames = frames


def read_message_reason(message: Json) -> FinishReason:
    """Returns why a relayed message ended."""
    return read_stop_reason(message.get("stop_reason"))


def _read_untyped_event(event: Json) -> Failed:
    """Returns the failure for an event without a type: an error in another form, or no event of this API."""
    if event.get("error"):
        return parse_failure(event["error"])
    if (text := find_bare_error(event, ())) is not None:
        return Failed("upstream_error", text)
    return Failed("upstream_garbled", "the upstream sent an event without a type")


def is_message_filtered(message: Json) -> bool:
    """Returns whether a relayed message was refused before it had content."""
    return message.get("stop_reason") == REFUSAL and not message.get("content")


def _to_frame(event: Json, frame: sse.Frame) -> bytes:
    """Returns the frame of an event: its name, without which official clients skip it, and one line of data, because
    clients that are not strict parsers read no more."""
    kind = str(event.get("type"))
    is_plain = frame.event == kind and _is_object(frame.payload)
    return frame.raw if is_plain else sse.encode_event(kind, orjson.dumps(event))


def _is_object(payload: bytes) -> bool:
    """Whether a payload is one line that begins and ends like a JSON object."""
    return payload[:1] == b"{" and payload[-1:] == b"}" and payload.find(b"\n") < 0


def _with_message(event: Json, message: str) -> Json:
    error: Any = event.get("error")
    return {**event, "error": {**error, "message": message}} if isinstance(error, dict) else event
