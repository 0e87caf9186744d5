"""Relays the stream of a chat upstream to a chat client. Forwards most frames as bytes, without parsing them."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import NoneType
from typing import Final

import orjson

from translation.chat import reply_objects
from translation.chat.delta_run import ChatDeltaRun
from translation.chat.reasoning import REASONING_TEXT_FIELDS
from translation.chat.relaying.choices import ChoiceReader, ChunkForm
from translation.chat.relaying.chunk_identity import ChunkIdentity, OwnCompletion
from translation.chat.relaying.reasoning_mover import make_reasoning_mover
from translation.chat.relaying.whole_completion import (
    build_broken_off_failure,
    is_broken_off,
)
from translation.chat.upstream.chat_failures import failure_in
from translation.chat.usage import read_usage
from translation.decoding.surrogates import SurrogateJoiner
from translation.encoding.event_encoder import StreamEnd
from translation.encoding.templates import RelayTemplate
from translation.errors import ProtocolViolation
from translation.exact_numbers import parse_with_tool_data
from translation.framing import sse
from translation.hygiene.call_tracker import DEFAULT_RULES, CallRules
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.events import Delta, Failed, FinishReason, Usage
from translation.representation.json_types import Json

_PARSED_VALUES: Final = re.compile(
    rb'"(?:content|refusal|role)": ?(?!["n ])|"(?:tool_calls|function_call)": ?(?!null|\[\])'
    rb'|"delta": ?(?![{n ])|"choices": ?(?![\[n ])|"index": ?(?![0-9 ])|"message": ?(?!null)'
)
"""Matches what has to be parsed in a payload: calls, lists of content parts, whole messages, and values of a wrong
type."""

_OPTIONAL_TEXT: Final = (str, NoneType)
_OPTIONAL_OBJECT: Final = (dict, NoneType)

_NULL_FINISH_REASON: Final = b'"finish_reason":null'


class ChatRelay(StreamEnd):
    """Takes the upstream's bytes, and returns whole frames with LF line ends, the last of them one `[DONE]`.

    `own` is the gateway's part of the chunks, and `form` what the client expects of them. Reasoning text, which the
    upstream sends in `upstream_fields`, is sent in the fields of the form and in no other field. Calls are normalized
    by `call_rules`. The chunk that ends a choice has `tool_warnings` about its invalid calls. `scrub` redacts the
    upstream's error messages.

    A stream that breaks off, reports a failure, or is not chat sets `failed`. After content the closing frames are then
    a chunk with `finish_reason: "error"` and an `error` object, and `[DONE]`. Before content nothing more is returned,
    because the reply can still become an HTTP error with its own status. If it cannot, call `fail`, which ends the
    stream.
    """

    def __init__(
        self,
        own: OwnCompletion,
        form: ChunkForm,
        *,
        upstream_fields: tuple[str, ...] = REASONING_TEXT_FIELDS,
        max_frame_bytes: int = sse.DEFAULT_MAX_FRAME_BYTES,
        call_rules: CallRules = DEFAULT_RULES,
        scrub: Callable[[str], str] = str,
    ) -> None:
        super().__init__()
        self._usage: Usage | None = None
        self._unread_usage: Json | None = None
        """The latest usage object of the upstream, not parsed and merged into `_usage` yet."""
        self._reasoning = make_reasoning_mover(upstream_fields, form.reasoning_fields)
        self._choices = ChoiceReader(self._reasoning, form, call_rules)
        self._identity = ChunkIdentity(own)
        self._form = form
        self._scrub = scrub
        self._frames = sse.FrameDecoder(max_frame_bytes)
        self._characters = SurrogateJoiner()
        self._seen_done = False
        self._stopped = False
        """Whether the turn has ended or failed. Then reads are ignored."""
        self._run: ChatDeltaRun | None = None
        """The delta run that the last frame belongs to, if it belongs to one."""
        self._run_template: RelayTemplate | None = None
        """The template of that run."""
        self._last_delta: Json | None = {}
        """The delta of the last frame if nothing but replacements changed it, else empty; None if the frame belongs to
        the run."""
        self.template: RelayTemplate | None = None
        """That template, which the fast path may use, if the next read begins with a new frame; otherwise None."""

    @property
    def response(self) -> Json | None:
        """Always None: this relay does not add up the chunks. A stored completion is built from the sent frames."""
        return None

    @property
    def has_content(self) -> bool:
        """Whether content or a regular end was forwarded. Then the request must not be retried."""
        return self._choices.has_content

    @property
    def is_filtered(self) -> bool:
        """Whether a content filter ended the only choice before it had content."""
        return self._choices.is_filtered and self._form.choice_count == 1

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the reply ended; None before."""
        return self._choices.finish_reason

    @property
    def warnings(self) -> list[Json]:
        """Entries for `tool_warnings`: the invalid calls of the choices that have ended."""
        return self._choices.warnings

    @property
    def unreported(self) -> Sequence[str]:
        """What the client does not get of the reply, by the names that losses have for it."""
        return self._choices.unreported

    @property
    def usage(self) -> Usage | None:
        """The token counts that the upstream reported so far. They are parsed on demand: few replies need them."""
        if self._unread_usage is not None:
            self._usage, self._unread_usage = read_usage(self._unread_usage, self._usage), None
        return self._usage

    def feed(self, read: bytes) -> bytes:
        """Takes one upstream read. Returns the frames to send, possibly none."""
        if self._stopped:
            return b""
        if self.template is not None and (forwarded := self.template.encode_read(read)) is not None:
            return forwarded
        payload = self._frames.single_payload(read)
        if payload is not None:
            forwarded = self._forward(payload, read)
        elif read.startswith(b"data: ") and (payloads := self._frames.uniform_payloads(read)) is not None:
            forwarded = self._forward_payloads(payloads)
            payload = payloads[-1]
        else:
            try:
                frames = self._frames.feed(read)
            except ProtocolViolation as violation:
                return self._stop(Failed("upstream_garbled", str(violation)))
            forwarded = self._forward_all(frames)
            if frames:
                payload = frames[-1].payload
        if self._stopped:
            return forwarded
        if self._seen_done:
            self._end()
            return forwarded
        if payload is not None and self._last_delta is not None:
            self._learn_template(payload, self._last_delta)
        self.template = self._run_template if self._frames.at_boundary else None
        return forwarded

    def _learn_template(self, payload: bytes, delta: Json) -> None:
        """Learns the template of the last frame, whose delta is empty if more than replacements changed it."""
        self._run = self._run_template = None
        if delta and not self._choices.finished:
            replacements = self._identity.replacements
            self._run = self._learn_delta_run(payload, delta, replacements)
            self._run_template = None if self._run is None else RelayTemplate(self._run, replacements)

    def _learn_delta_run(
        self, payload: bytes, delta: Json, replacements: Sequence[tuple[bytes, bytes]]
    ) -> ChatDeltaRun | None:
        """Learns a delta run from a chunk that is forwarded unchanged, except for `replacements`.

        Returns None if the chunk has no text, if it is ambiguous which text, or if a replaced member is not in it
        exactly once.
        """
        if any(payload.count(upstream_member) != 1 for upstream_member, _ in replacements):
            return None
        for field in self._reasoning.text_fields:
            if isinstance(text := delta.get(field), str) and text:
                streamed_text = self._choices.find_streamed(0).text_of(field)
                if streamed_text.needs_reading:
                    return None
                with suppress(orjson.JSONDecodeError):  # half a character: the other half came in another chunk
                    return ChatDeltaRun.from_delta(payload, field, Delta(0, None, text), streamed_text=streamed_text)
        return None

    def _note_plain(self, payload: bytes) -> bool:
        """Notes the text of a frame that is forwarded without a change.

        Returns whether it is one: a delta of the only choice, with texts where clients expect them. Raises
        JSONDecodeError if it is no JSON.
        """
        if self._run is not None and (texts := self._run.read_payload_texts((payload,))):
            self._run.note_texts(texts)
            self._last_delta = None
            return True
        chunk = orjson.loads(payload)
        delta = _delta_of(chunk)
        if not delta:
            return False
        text_fields = self._reasoning.text_fields
        for field, value in delta.items():
            if (type(value) not in _OPTIONAL_TEXT and field in text_fields) or field == "text":
                return False
        self._last_delta = delta
        self._choices.note_forwarded(delta)
        return True

    def finish(self) -> bytes:
        """Ends the stream, because the upstream closed. Returns the frames to send before the closing frames."""
        if self._stopped:
            return b""
        rest = self._forward_all(self._frames.finish(), last=True)
        if not self._stopped:
            self._end()
        return rest

    def fail(self, failed: Failed) -> bytes:
        """Ends the stream in failure. This replaces an end that `conclude` has not returned yet.

        Returns the frames to send before the closing frames: always none in this API.
        """
        if self._is_concluded:
            return b""
        self.failed = self.failed or failed
        chunk = {
            **self._identity.members,
            "choices": [{"index": 0, "delta": self._choices.build_unsent_calls(), "finish_reason": "error"}],
            "error": reply_objects.build_error(self.failed),
        }
        self._close(sse.encode_data(orjson.dumps(chunk)) + sse.DONE_FRAME)
        return b""

    def _forward_payloads(self, payloads: Sequence[bytes]) -> bytes:
        """Returns what to send for frames that are one `data:` line each."""
        out: list[bytes] = []
        for payload in payloads:
            out.append(self._forward(payload, b"data: %b\n\n" % payload))
            if self._stopped:
                break
        return b"".join(out)

    def _forward_all(self, frames: Sequence[sse.Frame], *, last: bool = False) -> bytes:
        out: list[bytes] = []
        for frame in frames:
            out.append(self._forward(frame.payload, frame.raw, last=last))
            if self._stopped:
                break
        return b"".join(out)

    def _forward(self, payload: bytes, raw: bytes, *, last: bool = False) -> bytes:
        """Returns what to send for a frame. `last`: the upstream closed after the frame, or in the middle of it."""
        if payload == sse.DONE_PAYLOAD:
            self._seen_done = True
            return b""
        if self._seen_done and payload.find(b'"usage"') < 0:
            return b""
        if (whole := self._characters.rewrite(payload)) is not payload:
            payload, raw = whole, sse.encode_data(whole)
        try:
            if not (self._choices.may_forward and self._is_plain(payload)):
                return self._forward_parsed(payload, raw)
            forwarded = raw
            for upstream_member, client_member in self._identity.replacements:
                if payload.find(upstream_member) < 0:
                    return self._forward_parsed(payload, raw)
                forwarded = forwarded.replace(upstream_member, client_member, 1)
            # The note is last: what is noted and then parsed would count twice.
            return forwarded if self._note_plain(payload) else self._forward_parsed(payload, raw)
        except (ProtocolViolation, orjson.JSONDecodeError, UnicodeDecodeError) as error:
            return self._stop(_garbled_failure(error, last=last))

    def _is_plain(self, payload: bytes) -> bool:
        """Returns whether a frame can only be a delta before the end of the stream that needs no parsing.

        A quote inside JSON text is escaped, so bytes that look like a key are a key. Frames with other spacing in their
        JSON do not match, so each of them is parsed.
        """
        find = payload.find  # to search for bytes with `in` raises an exception inside CPython, which takes longer
        return (
            self._form.choice_count == 1
            and find(_NULL_FINISH_REASON) >= 0
            and find(b'"finish_reason":"') < 0
            and find(b'"error"') < 0
            and (find(b'"usage"') < 0 or find(b'"usage":null') >= 0)
            and not self._reasoning.may_move(payload)
            and _PARSED_VALUES.search(payload) is None
            and payload[:1] == b"{"
            and payload[-1:] == b"}"
        )

    def _forward_parsed(self, payload: bytes, raw: bytes) -> bytes:
        chunk = orjson.loads(payload) if payload.find(b'"arguments"') < 0 else parse_with_tool_data(payload)
        if not isinstance(chunk, dict):
            raise ProtocolViolation("an event of the upstream's stream is not a JSON object")
        self._last_delta = {}
        if ("error" in chunk or "choices" not in chunk) and (failed := failure_in(chunk)):
            return self._stop(failed)
        choices = chunk.get("choices")
        usage = chunk.get("usage")
        if not isinstance(choices, list):
            if choices is not None:
                raise ProtocolViolation("the choices of the upstream's stream are not a list")
            if not usage and not self._choices.has_content and chunk.get("object") != "chat.completion.chunk":
                raise ProtocolViolation("the upstream's stream is not a chat completion")
            choices = []
        changed = self._identity.override(chunk) | _complete_chunk(chunk)
        if isinstance(usage, dict):
            self._usage, self._unread_usage = self.usage, usage
            # The chunk has only token counts, which the client did not request.
            if not choices and not self._form.include_usage:
                return b""
        had_to_be_read = not self._choices.may_forward
        warnings = self._choices.warnings
        warning_count = len(warnings)
        for choice in choices:
            if not isinstance(choice, dict):
                raise ProtocolViolation("a choice of the upstream's stream is not a JSON object")
            if not self._choices.is_requested(choice):
                chunk["choices"] = [other for other in chunk["choices"] if other is not choice]
                changed = True
                continue
            if (choice.get("finish_reason") or choice.get("error")) and is_broken_off(choice):
                return self._stop(build_broken_off_failure(choice))
            changed |= self._choices.read_choice(choice)
        if had_to_be_read and self._choices.may_forward and self._choices.has_content and self._is_plain(payload):
            self._last_delta = _delta_of(chunk)  # frames like this one need not be read from now on
        if len(warnings) > warning_count:
            chunk[TOOL_WARNINGS] = warnings
        if self._form.choice_count == 1 and len(chunk["choices"]) > 1:
            return _split_chunk(chunk)
        # A chunk without a change is forwarded as it came, with all fields that no table here knows.
        return sse.encode_data(orjson.dumps(chunk)) if changed else raw

    def _stop(self, failed: Failed) -> bytes:
        """Notes a failure, and after content ends the stream with it. Returns the frames to send, if any."""
        self.failed = failed
        self._stopped = True
        self.template = None
        failed.usage = self.usage
        failed.redact(self._scrub)
        return self.fail(failed) if self.has_content else b""

    def _end(self) -> None:
        if self._characters.has_halves:
            self._stop(Failed("upstream_garbled", "the upstream's text ends within a character"))
        elif len(self._choices.finished) < self._form.choice_count:
            self._stop(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))
        else:
            self._close(sse.DONE_FRAME)

    def _close(self, frames: bytes) -> None:
        self.ended = self._stopped = True
        self.template = None
        self.closing_frames = frames


def _delta_of(chunk: Json) -> Json:
    """Returns the delta of a chunk that has one choice, the first; `{}` for any other chunk."""
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choice := choices[0], dict):
        return {}
    delta = choice.get("delta")
    return {} if choice.get("index") or not isinstance(delta, dict) else delta


def _split_chunk(chunk: Json) -> bytes:
    """Returns a frame for each choice of a chunk that has the client's only choice several times: clients read one."""
    *firsts, last = chunk["choices"]
    frames = [sse.encode_data(orjson.dumps({**chunk, "choices": [choice], "usage": None})) for choice in firsts]
    return b"".join([*frames, sse.encode_data(orjson.dumps({**chunk, "choices": [last]}))])


def _complete_chunk(chunk: Json) -> bool:
    """Gives a chunk what clients read of each: a list of choices, and usage that is an object or null. In place.

    Returns whether it was changed.
    """
    changed = not isinstance(chunk.get("choices"), list)
    if changed:
        chunk["choices"] = []
    if not isinstance(chunk.get("usage"), _OPTIONAL_OBJECT):
        chunk["usage"] = None
        changed = True
    return changed


def _garbled_failure(error: Exception, *, last: bool) -> Failed:
    if last:  # the upstream closed in the middle of it
        return Failed("upstream_truncated", "the upstream's reply broke off before it was finished")
    message = str(error) if isinstance(error, ProtocolViolation) else "an event of the upstream's stream is not JSON"
    return Failed("upstream_garbled", message)
