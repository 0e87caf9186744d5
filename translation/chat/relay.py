"""Chat to a client from an upstream that speaks chat itself: frames leave as they came, and few are opened."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import orjson

from translation import sse
from translation.chat import reply
from translation.chat.failures import BROKEN, failure_in
from translation.chat.passing import Passing
from translation.chat.reasoning import FIELDS
from translation.chat.relay_calls import CallMender
from translation.chat.text_run import TextRun
from translation.chat.usage import read_usage
from translation.errors import ProtocolViolation
from translation.events import Failed, Usage
from translation.hygiene.relayed import DEFAULT_RULES, CallRules
from translation.json_types import Json
from translation.text_calls import WARNINGS

_CONTENT: Final = (
    "content",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "refusal",
    "tool_calls",
    "function_call",
    "audio",
)
"""Keys of a delta that say something a retry would say again."""

_OTHER_REASONING: Final = {
    frozenset({"reasoning"}): b'"reasoning_content"',
    frozenset({"reasoning_content"}): b'"reasoning":',
}
"""Fields that are wanted -> the key that has to go; for other wishes every chunk with reasoning is looked at."""

_CALLS: Final = re.compile(rb'"(?:tool_calls|function_call)": ?[\[{](?!\])')
"""Calls in a frame, as opposed to a null or an empty list."""

_CUTS: Final = ("length", "content_filter")

_BROKE_OFF: Final = "the upstream broke off its reply"

_UNFINISHED: Final = b'"finish_reason":null'


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
        kept: bool = False,
        reasoning_fields: frozenset[str],
        include_usage: bool,
        max_line_bytes: int = sse.DEFAULT_MAX_FRAME_BYTES,
        choices: int = 1,
        calls: CallRules = DEFAULT_RULES,
        legacy_functions: bool = False,
        scrub: Callable[[str], str] = str,
    ) -> None:
        self.has_content = False
        """Whether something a retry would repeat has been passed on, a regular end included."""
        self.failed: Failed | None = None
        self.usage: Usage | None = None
        self.warnings: list[Json] = []
        """What is wrong with calls that cannot be read, as far as their choices have ended."""
        self._ours: Json = {key: identity[key] for key in ("id", "created")} if kept else {}
        if model is not None:
            self._ours["model"] = model
        self.response: Json | None = None
        """Chunks are not added up here: see `KeptChat`."""
        self._fields = reasoning_fields
        self._other_reasoning = _OTHER_REASONING.get(reasoning_fields, b'"reasoning')
        self._include_usage = include_usage
        self._scrub = scrub
        self._choices = choices
        self._frames = sse.FrameDecoder(max_line_bytes)
        self._finished: set[int] = set()
        self._said_done = False
        self.ended = False
        """Whether the last frames were made."""
        self._end_bytes = 0
        self._identity: Json = {**identity, "object": "chat.completion.chunk"}
        self._renaming: list[tuple[bytes, bytes]] = []
        self._passing: Passing | None = None
        self._legacy = legacy_functions
        self._new_calls = partial(CallMender, calls, legacy=legacy_functions)
        self._calls: dict[int, CallMender] = {}

    def feed(self, read: bytes) -> bytes:
        """Take one upstream read, return the frames to send, possibly none."""
        if self._stopped:
            return b""
        if (alike := self.alike) is not None and (passed := alike.piece_of(read)) is not None:
            return passed
        try:
            frames = self._frames.feed(read)
        except ProtocolViolation as violation:
            return self._stop(Failed("upstream_garbled", str(violation)))
        passed = self._pass_on(frames)
        if frames and self._choices == 1:
            self._learn(frames[-1].payload)
        return passed

    @property
    def alike(self) -> Passing | None:
        """The short way of reads that are whole frames, and differ from the last one in their text only."""
        return self._passing if self._frames.between and not self._stopped else None

    def _learn(self, payload: bytes) -> None:
        """A delta that leaves as it came, but for names it says once, is one that others may be like."""
        if self._stopped or self._said_done or not self._is_plain(payload):
            self._passing = None
        elif self._passing is None or not self._passing.run.texts([payload]):
            said_once = all(payload.count(theirs) == 1 for theirs, _ in self._renaming)
            run = TextRun.found_in(payload) if said_once else None
            self._passing = None if run is None else Passing(run, self._renaming)

    def finish(self) -> bytes:
        """The upstream closed: what is left to send."""
        if self._stopped:
            return b""
        rest = self._pass_on(self._frames.finish(), last=True)
        return rest if self._stopped else rest + self._end()

    def fail(self, failed: Failed) -> bytes:
        """The frames that end the stream now, in failure; empty when it has ended already."""
        if self.ended:
            return b""
        self.failed = self.failed or failed
        chunk = {
            **self._identity,
            "choices": [{"index": 0, "delta": self._unsaid(), "finish_reason": "error"}],
            "error": reply.error(self.failed),
        }
        return self._close(sse.data(orjson.dumps(chunk)) + sse.DONE)

    def _unsaid(self) -> Json:
        """What a choice that fails has not said of its calls."""
        rest = self._calls[0].complete(cut=True) if 0 in self._calls and 0 not in self._finished else []
        return {"tool_calls": rest} if rest else {}

    def withdraw(self, frames: bytes) -> bytes:
        """`frames`, the last that were made, without the end: as if that had not come yet."""
        self.ended = False
        return frames[: -self._end_bytes]

    @property
    def _stopped(self) -> bool:
        return self.ended or self.failed is not None

    def _pass_on(self, frames: Sequence[sse.Frame], *, last: bool = False) -> bytes:
        out: list[bytes] = []
        for frame in frames:
            if frame.payload == sse.DONE_PAYLOAD:
                self._said_done = True
                continue
            try:
                passed = self._forward(frame)
            except (ProtocolViolation, orjson.JSONDecodeError, UnicodeDecodeError) as error:
                out.append(self._stop(_garbled(error, last=last)))
                break
            out.append(passed)
            if self._stopped:
                break
        if self._said_done and not self._stopped:
            out.append(self._end())
        return b"".join(out)

    def _forward(self, frame: sse.Frame) -> bytes:
        payload = frame.payload
        if self._said_done and b'"usage"' not in payload:
            return b""
        if not self.has_content or not self._is_plain(payload):
            return self._open(frame)
        payload.decode()  # orjson would have found bytes that are not UTF-8
        raw = frame.raw
        for theirs, ours in self._renaming:
            if theirs not in payload:
                return self._open(frame)
            raw = raw.replace(theirs, ours, 1)
        return raw

    def _is_plain(self, payload: bytes) -> bool:
        """Whether a frame can only be a delta in the middle. A quote inside JSON text is escaped, so keys are what they
        look like; servers that space their JSON differently just have every frame opened."""
        return (
            _UNFINISHED in payload
            and b'"finish_reason":"' not in payload
            and b'"error"' not in payload
            and (b'"usage"' not in payload or b'"usage":null' in payload)
            and self._other_reasoning not in payload
            and b'"content":[' not in payload
            and (b"_call" not in payload or _CALLS.search(payload) is None)
            and payload[:1] == b"{"
            and payload[-1:] == b"}"
        )

    def _open(self, frame: sse.Frame) -> bytes:
        chunk = orjson.loads(frame.payload)
        if not isinstance(chunk, dict):
            raise ProtocolViolation("an event of the upstream's stream is not a JSON object")
        if failed := failure_in(chunk):
            return self._stop(failed)
        choices = chunk.get("choices")
        usage = chunk.get("usage")
        if not isinstance(choices, list):
            if not usage and not self.has_content and chunk.get("object") != "chat.completion.chunk":
                raise ProtocolViolation("the upstream's stream is not a chat completion")
            choices = []
        if isinstance(usage, dict):
            self.usage = read_usage(usage, self.usage)
            if not choices and not self._include_usage:
                return b""
        changed = self._rename(chunk)
        warned = len(self.warnings)
        for choice in choices:
            if not isinstance(choice, dict):
                raise ProtocolViolation("a choice of the upstream's stream is not a JSON object")
            if _is_broken(choice):
                return self._stop(failure_in(choice) or Failed("upstream_error", _BROKE_OFF))
            changed |= self._read_choice(choice)
        if len(self.warnings) > warned:
            chunk[WARNINGS] = self.warnings
        return sse.data(orjson.dumps(chunk)) if changed else frame.raw

    def _read_choice(self, choice: Json) -> bool:
        """Note what a choice says; whether it was changed."""
        delta = choice.get("delta")
        index = choice.get("index") or 0
        if not isinstance(index, int):
            raise ProtocolViolation("the index of a choice in the upstream's stream is not a number")
        changed = False
        if isinstance(delta, dict):
            self.has_content = self.has_content or any(delta.get(key) for key in _CONTENT)
            changed = _say_content(delta) | say_reasoning(delta, self._fields) | self._mend_calls(index, delta)
        if choice.get("finish_reason"):
            if index not in self._finished:
                self._finished.add(index)
                self.has_content = True
                changed |= self._complete_calls(index, choice)
            changed |= reply.mend_ending(choice, called=index in self._calls, legacy=self._legacy)
        return changed

    def _mend_calls(self, index: int, delta: Json) -> bool:
        if not (delta.get("tool_calls") or delta.get("function_call")):
            return False
        if index not in self._calls:
            self._calls[index] = self._new_calls()
        return self._calls[index].mend(delta)

    def _complete_calls(self, index: int, choice: Json) -> bool:
        """Say what is left to say of calls before the turn ends; whether there was anything."""
        if index not in self._calls:
            return False
        rest = self._calls[index].complete(cut=choice["finish_reason"] in _CUTS)
        self.warnings += self._calls[index].warnings
        if rest:
            delta: Json = choice.get("delta") or {}
            choice["delta"] = {**delta, "tool_calls": [*(delta.get("tool_calls") or ()), *rest]}
        return bool(rest) or bool(self._calls[index].warnings)

    def _rename(self, chunk: Json) -> bool:
        """Learn who is speaking and how the frames say it; have the chunk say what is ours to say."""
        self._identity |= {key: chunk[key] for key in ("id", "created", "model") if chunk.get(key)}
        self._identity |= self._ours
        renamed = [key for key, said in self._ours.items() if chunk.get(key) != said]
        if not renamed:
            return False
        self._renaming = [(_said(key, chunk.get(key)), _said(key, self._ours[key])) for key in renamed]
        chunk |= self._ours
        return True

    def _stop(self, failed: Failed) -> bytes:
        self.failed = failed
        failed.usage = self.usage
        failed.message = self._scrub(failed.message)
        return self.fail(failed) if self.has_content else b""

    def _end(self) -> bytes:
        if len(self._finished) < self._choices:
            return self._stop(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))
        return self._close(sse.DONE)

    def _close(self, end: bytes) -> bytes:
        self.ended = True
        self._end_bytes = len(end)
        return end


def _said(key: str, value: Any) -> bytes:
    return orjson.dumps({key: value})[1:-1]


def relay_completion(
    answer: Json,
    *,
    model: str | None,
    reasoning_fields: frozenset[str],
    calls: CallRules = DEFAULT_RULES,
    legacy_functions: bool = False,
) -> Json:
    """A whole completion as the upstream sent it, under our name for the model, reasoning in `reasoning_fields` only.

    Calls and finish reasons are mended as on a stream, and there are the same `tool_warnings`; one that broke off is
    for `failure_of` to find first. Raises ProtocolViolation for anything that is not a completion. The answer given is
    not changed.
    """
    choices = answer.get("choices")
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(_message(choice), dict) for choice in choices)
    ):
        raise ProtocolViolation("the upstream's answer is not a chat completion")
    relayed = {**answer, "choices": [{**choice, "message": dict(choice["message"])} for choice in choices]}
    warnings: list[Json] = []
    for choice in relayed["choices"]:
        _say_content(choice["message"])
        say_reasoning(choice["message"], reasoning_fields)
        mender = CallMender(calls, legacy=legacy_functions)
        mender.mend_whole(choice["message"], cut=choice.get("finish_reason") in _CUTS)
        warnings += mender.warnings
        called = bool(choice["message"].get("tool_calls") or choice["message"].get("function_call"))
        reply.mend_ending(choice, called=called, legacy=legacy_functions)
    if model is not None:
        relayed["model"] = model
    if warnings:
        relayed[WARNINGS] = warnings
    return relayed


def failure_of(answer: Json) -> Failed | None:
    """Why a whole completion is no answer: one of its choices broke off."""
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and _is_broken(choice):
            return failure_in(choice) or Failed("upstream_error", _BROKE_OFF)
    return None


def say_reasoning(message: Json, fields: frozenset[str]) -> bool:
    """Put a delta's or message's reasoning in these fields and in no other; whether that changed anything.

    `reasoning_details` are kept beside them, for clients that send them back, and go only where no field is wanted.
    """
    before = {key: message[key] for key in ("reasoning_content", "reasoning") if key in message}
    text = before.get("reasoning_content") or before.get("reasoning")
    wanted = dict.fromkeys(sorted(fields), text) if text else {}
    said = {key: value for key, value in before.items() if value}
    hidden = not fields and message.get("reasoning_details")
    if said == wanted and not hidden:
        return False
    for key in before:
        del message[key]
    message |= wanted
    if hidden:
        del message["reasoning_details"]
    return True


def _say_content(message: Json) -> bool:
    """Make a text of Mistral's lists of parts, and reasoning of the thoughts among them; whether there were any."""
    parts = message.get("content")
    if not isinstance(parts, list):
        return False
    thoughts = [part["thinking"] for part in parts if isinstance(part, dict) and "thinking" in part]
    message["content"] = reply.text_of(parts)
    if thoughts and not any(message.get(field) for field in FIELDS):
        message["reasoning"] = reply.text_of(thoughts)
    return True


def _is_broken(choice: Json) -> bool:
    return str(choice.get("finish_reason")) in BROKEN or bool(choice.get("error"))


def _message(choice: Any) -> Any:
    return choice.get("message") if isinstance(choice, dict) else None


def _garbled(error: Exception, *, last: bool) -> Failed:
    if last:  # the upstream closed in the middle of it
        return Failed("upstream_truncated", "the upstream's reply broke off before it was finished")
    words = str(error) if isinstance(error, ProtocolViolation) else "an event of the upstream's stream is not JSON"
    return Failed("upstream_garbled", words)
