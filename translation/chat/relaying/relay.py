"""Chat to a client from an upstream that speaks chat itself: frames leave as they came, and few are opened."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from translation.chat import reply_objects
from translation.chat.failures import failure_in
from translation.chat.reasoning import REASONING_FIELDS
from translation.chat.relay_template import RelayTemplate
from translation.chat.relaying.answer import (
    CUT_REASONS,
    broken_off_failure,
    flatten_content,
    is_broken_off,
    set_reasoning_fields,
)
from translation.chat.relaying.calls import CallNormalizer
from translation.chat.usage import read_usage
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.hygiene.call_rules import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Json

_CONTENT_KEYS: Final = frozenset({*REASONING_FIELDS, "content", "refusal", "tool_calls", "function_call", "audio"})
"""Keys of a delta that say something a retry would say again."""

_UNCHANGED_KEYS: Final = frozenset({"role", "content", "refusal"})
"""Keys of a delta that leave as they came, unless the content is a list."""

_UNWANTED_REASONING_KEYS: Final = {
    frozenset({"reasoning"}): b'"reasoning_content"',
    frozenset({"reasoning_content"}): b'"reasoning":',
}
"""Fields that are wanted -> the key that has to go; for other wishes every chunk with reasoning is looked at."""

_CALL_PATTERN: Final = re.compile(rb'"(?:tool_calls|function_call)": ?[\[{](?!\])')
"""Calls in a frame, as opposed to a null or an empty list."""

_NULL_FINISH_REASON: Final = b'"finish_reason":null'

_IDENTITY_KEYS: Final = ("id", "created", "model")
"""Keys of a chunk that say whose it is."""


class ChatRelay:
    """Bytes of the upstream's stream in, whole LF frames out, ending in exactly one `[DONE]`.

    `model` replaces the name in every chunk, `None` leaves the upstream's. `identity` (id, created, model) is what a
    chunk says of itself where the upstream has said nothing; when the completion is `kept` here, all say its id and
    time. Reasoning is said in `reasoning_fields` and in no other field. Calls are as `calls` says; the chunk that ends
    a choice has `tool_warnings` of those that cannot be read. Usage is always asked for upstream: the chunk with
    nothing else is left out unless the client wants it (`include_usage`). With `choices` asked for, the stream is whole
    once each has a finish reason.

    A stream that breaks off, says it failed, or is not chat sets `failed`. After content that closes the stream: a
    chunk with `finish_reason: "error"` and an `error` object, then `[DONE]`. Before any, nothing more is written,
    because the reply can still become an error with a status of its own; `fail` writes the closing frames if it cannot.
    """

    def __init__(
        self,
        *,
        model: str | None,
        identity: Json,
        stored: bool = False,
        reasoning_fields: frozenset[str],
        include_usage: bool,
        max_frame_bytes: int = sse.DEFAULT_MAX_FRAME_BYTES,
        choices: int = 1,
        call_rules: CallRules = DEFAULT_RULES,
        legacy_functions: bool = False,
        scrub: Callable[[str], str] = str,
    ) -> None:
        self.has_content = False
        """Whether something a retry would repeat has been passed on, a regular end included."""
        self.failed: Failed | None = None
        self._usage: Usage | None = None
        self._unread_usage: Json | None = None
        """What was said of usage after `_usage` was read."""
        self.warnings: list[Json] = []
        """What is wrong with calls that cannot be read, as far as their choices have ended."""
        self._overrides: Json = {"id": identity["id"], "created": identity["created"]} if stored else {}
        if model is not None:
            self._overrides["model"] = model
        self.response: Json | None = None
        """Chunks are not added up here: see `KeptChat`."""
        self._reasoning_fields = reasoning_fields
        self._other_reasoning = _UNWANTED_REASONING_KEYS.get(reasoning_fields, b'"reasoning')
        self._include_usage = include_usage
        self._scrub = scrub
        self._choice_count = choices
        self._frames = sse.FrameDecoder(max_frame_bytes)
        self._finished: set[int] = set()
        self._seen_done = False
        self.ended = False
        """Whether the turn is over; `conclude` then has the last frames."""
        self._stopped = False
        """Whether it has ended or failed."""
        self.closing_frames = b""
        """The frames that `conclude` will return, once `ended`."""
        self._is_concluded = False
        self._identity: Json = {**identity, "object": "chat.completion.chunk"}
        self._last_identity: tuple[Any, ...] | None = None
        """What the last opened chunk said of whose it is."""
        self._is_overridden = False
        """Whether a chunk that says that is to say something else."""
        self._replacements: list[tuple[bytes, bytes]] = []
        self._relay_template: RelayTemplate | None = None
        self.template: RelayTemplate | None = None
        """The short way of reads that are whole frames, and differ from the last one in their text only."""
        self._legacy_functions = legacy_functions
        self._rules = call_rules
        self._calls: dict[int, CallNormalizer] = {}

    @property
    def usage(self) -> Usage | None:
        """What was reported so far; read when it is asked for, which of most streams it is not."""
        if self._unread_usage is not None:
            self._usage, self._unread_usage = read_usage(self._unread_usage, self._usage), None
        return self._usage

    def feed(self, read: bytes) -> bytes:
        """Take one upstream read, return the frames to send, possibly none."""
        if self._stopped:
            return b""
        if self.template is not None and (passed := self.template.encode_read(read)) is not None:
            return passed
        payload = self._frames.single_payload(read)
        if payload is not None:
            passed = self._forward(payload, read)
        else:
            try:
                frames = self._frames.feed(read)
            except ProtocolViolation as violation:
                return self._stop(Failed("upstream_garbled", str(violation)))
            passed = self._forward_all(frames)
            if frames:
                payload = frames[-1].payload
        if self._stopped:
            return passed
        if self._seen_done:
            self._end()
            return passed
        if payload is not None and self._choice_count == 1:
            self._learn_template(payload)
        self.template = self._relay_template if self._frames.at_boundary else None
        return passed

    def _learn_template(self, payload: bytes) -> None:
        """A delta that leaves as it came, but for names it says once, is one that others may be like."""
        if not self.has_content or self._finished or not self._is_plain(payload):
            self._relay_template = None
        elif self._relay_template is None or not self._relay_template.run.texts_in_payloads([payload]):
            self._relay_template = RelayTemplate.learn(payload, self._replacements)

    def finish(self) -> bytes:
        """The upstream closed: returns what is left to send before the closing frames."""
        if self._stopped:
            return b""
        rest = self._forward_all(self._frames.finish(), last=True)
        if not self._stopped:
            self._end()
        return rest

    def fail(self, failed: Failed) -> bytes:
        """Ends the stream in failure, also in the place of an end that `conclude` has not returned yet.

        Returns the frames that come before the closing ones: none in this API.
        """
        if self._is_concluded:
            return b""
        self.failed = self.failed or failed
        chunk = {
            **self._identity,
            "choices": [{"index": 0, "delta": self._unsent_calls(), "finish_reason": "error"}],
            "error": reply_objects.build_error(self.failed),
        }
        self._close(sse.encode_data(orjson.dumps(chunk)) + sse.DONE_FRAME)
        return b""

    def _unsent_calls(self) -> Json:
        """What a choice that fails has not said of its calls."""
        rest = self._calls[0].build_last_entries(cut=True) if 0 in self._calls and 0 not in self._finished else []
        return {"tool_calls": rest} if rest else {}

    def conclude(self) -> bytes:
        """Returns the closing frames, once, after `ended`; nothing the second time."""
        if not self.ended or self._is_concluded:
            return b""
        self._is_concluded = True
        return self.closing_frames

    def _forward_all(self, frames: Sequence[sse.Frame], *, last: bool = False) -> bytes:
        out: list[bytes] = []
        for frame in frames:
            out.append(self._forward(frame.payload, frame.raw, last=last))
            if self._stopped:
                break
        return b"".join(out)

    def _forward(self, payload: bytes, raw: bytes, *, last: bool = False) -> bytes:
        """What leaves of a frame; `last`: the upstream closed after it, or within."""
        if payload == sse.DONE_PAYLOAD:
            self._seen_done = True
            return b""
        if self._seen_done and b'"usage"' not in payload:
            return b""
        try:
            if not self.has_content or not self._is_plain(payload):
                return self._forward_opened(payload, raw)
            payload.decode()  # orjson would have found bytes that are not UTF-8
            passed = raw
            for theirs, ours in self._replacements:
                if theirs not in payload:
                    return self._forward_opened(payload, raw)
                passed = passed.replace(theirs, ours, 1)
            return passed
        except (ProtocolViolation, orjson.JSONDecodeError, UnicodeDecodeError) as error:
            return self._stop(_garbled_failure(error, last=last))

    def _is_plain(self, payload: bytes) -> bool:
        """Whether a frame can only be a delta in the middle. A quote inside JSON text is escaped, so keys are what they
        look like; servers that space their JSON differently just have every frame opened."""
        return (
            _NULL_FINISH_REASON in payload
            and b'"finish_reason":"' not in payload
            and b'"error"' not in payload
            and (b'"usage"' not in payload or b'"usage":null' in payload)
            and self._other_reasoning not in payload
            and b'"content":[' not in payload
            and (b"_call" not in payload or _CALL_PATTERN.search(payload) is None)
            and payload[:1] == b"{"
            and payload[-1:] == b"}"
        )

    def _forward_opened(self, payload: bytes, raw: bytes) -> bytes:
        chunk = orjson.loads(payload)
        if not isinstance(chunk, dict):
            raise ProtocolViolation("an event of the upstream's stream is not a JSON object")
        if ("error" in chunk or chunk.get("object") == "error") and (failed := failure_in(chunk)):
            return self._stop(failed)
        choices = chunk.get("choices")
        usage = chunk.get("usage")
        if not isinstance(choices, list):
            if not usage and not self.has_content and chunk.get("object") != "chat.completion.chunk":
                raise ProtocolViolation("the upstream's stream is not a chat completion")
            choices = []
        if isinstance(usage, dict):
            self._usage, self._unread_usage = self.usage, usage
            if not choices and not self._include_usage:
                return b""
        changed = self._override_identity(chunk)
        warned = len(self.warnings)
        for choice in choices:
            if not isinstance(choice, dict):
                raise ProtocolViolation("a choice of the upstream's stream is not a JSON object")
            if (choice.get("finish_reason") or choice.get("error")) and is_broken_off(choice):
                return self._stop(broken_off_failure(choice))
            changed |= self._read_choice(choice)
        if len(self.warnings) > warned:
            chunk[TOOL_WARNINGS] = self.warnings
        return sse.encode_data(orjson.dumps(chunk)) if changed else raw

    def _read_choice(self, choice: Json) -> bool:
        """Note what a choice says; whether it was changed."""
        delta = choice.get("delta")
        index = choice.get("index") or 0
        if not isinstance(index, int):
            raise ProtocolViolation("the index of a choice in the upstream's stream is not a number")
        changed = False
        if isinstance(delta, dict):
            for key in () if self.has_content else delta:
                if key in _CONTENT_KEYS and delta[key]:
                    self.has_content = True
                    break
            if not _UNCHANGED_KEYS.issuperset(delta) or isinstance(delta.get("content"), list):
                changed = (
                    flatten_content(delta)
                    | set_reasoning_fields(delta, self._reasoning_fields)
                    | self._normalize_calls(index, delta)
                )
        if choice.get("finish_reason"):
            if index not in self._finished:
                self._finished.add(index)
                self.has_content = True
                if index in self._calls:
                    changed |= self._complete_calls(index, choice)
            changed |= reply_objects.normalize_finish_reason(
                choice, called=index in self._calls, legacy=self._legacy_functions
            )
        return changed

    def _normalize_calls(self, index: int, delta: Json) -> bool:
        if not (delta.get("tool_calls") or delta.get("function_call")):
            return False
        if index not in self._calls:
            self._calls[index] = CallNormalizer(self._rules, legacy=self._legacy_functions)
        return self._calls[index].normalize_delta(delta)

    def _complete_calls(self, index: int, choice: Json) -> bool:
        """Say what is left to say of calls before the turn ends; whether there was anything."""
        rest = self._calls[index].build_last_entries(cut=choice["finish_reason"] in CUT_REASONS)
        self.warnings += self._calls[index].warnings
        if rest:
            delta: Json = choice.get("delta") or {}
            choice["delta"] = {**delta, "tool_calls": [*(delta.get("tool_calls") or ()), *rest]}
        return bool(rest) or bool(self._calls[index].warnings)

    def _override_identity(self, chunk: Json) -> bool:
        """Learn who is speaking and how the frames say it; have the chunk say what is ours to say."""
        heads = (chunk.get("id"), chunk.get("created"), chunk.get("model"))
        if heads != self._last_identity:
            self._last_identity = heads
            for key, said in zip(_IDENTITY_KEYS, heads, strict=True):
                if said:
                    self._identity[key] = said
            if self._overrides:
                self._learn_replacements(chunk)
        if self._is_overridden:
            chunk |= self._overrides
        return self._is_overridden

    def _learn_replacements(self, chunk: Json) -> None:
        self._identity |= self._overrides
        renamed = [key for key in self._overrides if chunk.get(key) != self._overrides[key]]
        self._is_overridden = bool(renamed)
        if renamed:
            self._replacements = [
                (_json_member(key, chunk.get(key)), _json_member(key, self._overrides[key])) for key in renamed
            ]

    def _stop(self, failed: Failed) -> bytes:
        """Ends the stream in failure, if something was forwarded before."""
        self.failed = failed
        self._stopped = True
        self.template = None
        failed.usage = self.usage
        failed.message = self._scrub(failed.message)
        return self.fail(failed) if self.has_content else b""

    def _end(self) -> None:
        if len(self._finished) < self._choice_count:
            self._stop(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))
        else:
            self._close(sse.DONE_FRAME)

    def _close(self, end: bytes) -> None:
        self.ended = self._stopped = True
        self.template = None
        self.closing_frames = end


def _json_member(key: str, value: Any) -> bytes:
    return orjson.dumps({key: value})[1:-1]


def _garbled_failure(error: Exception, *, last: bool) -> Failed:
    if last:  # the upstream closed in the middle of it
        return Failed("upstream_truncated", "the upstream's reply broke off before it was finished")
    words = str(error) if isinstance(error, ProtocolViolation) else "an event of the upstream's stream is not JSON"
    return Failed("upstream_garbled", words)
