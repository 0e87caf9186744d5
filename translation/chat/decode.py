"""What a chat upstream says, as events: the chunks of a stream, or one whole completion."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any, Final

import orjson

from translation.chat.calls import CallAssembler
from translation.chat.delta_run import ChatDeltaRun
from translation.chat.failures import BROKEN_FINISH_REASONS, failure_in
from translation.chat.reasoning import REASONING_FIELDS, REASONING_TEXT_FIELDS, ReasoningReader, build_reasoning_item
from translation.chat.reply_objects import FINISH_REASONS, flatten_text
from translation.chat.usage import read_logprobs, read_usage
from translation.errors import ProtocolViolation
from translation.parsers.edges import EdgeTrimmer
from translation.parsers.text_calls import TextCallDecoder
from translation.parsers.think_tags import ThinkParser
from translation.parsers.tools import PARSER_FACTORIES
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    FinishReason,
    ItemStatus,
    Noted,
    Opaque,
    Started,
    Usage,
)
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId, new_reasoning
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile

FACT_KEYS: Final = ("service_tier", "system_fingerprint")
"""Keys of a chunk that are noted as facts."""

_FACT_KEY_SET: Final = frozenset(FACT_KEYS)

_TEXT_FIELDS: Final = frozenset({"content", *REASONING_TEXT_FIELDS})

_PLAIN_DELTA_KEYS: Final = frozenset({"role", "content"})
"""All that there is in most deltas."""

_WHOLE_COMPLETION: Final = "whole answer"
"""Stands for a finish reason where a whole completion has none: nothing can have been cut."""


_CUT_REASONS: Final = ("length", "content_filter")
"""Finish reasons of answers that are not whole."""


class DecoderState(Enum):
    WAITING = auto()  # nothing seen
    STREAMING = auto()  # deltas flowing
    DRAINING = auto()  # finish_reason seen; usage may still follow
    ENDED = auto()


_WAITING, _STREAMING, _DRAINING, _ENDED = DecoderState
"""Each chunk asks for some of them, and an Enum is asked for a member by a call."""


class ChatDecoder:
    """State machine: WAITING -> STREAMING -> DRAINING -> ENDED. No I/O, no clock, no ids of its own.

    Feed it every chunk, then `finish`; a whole `chat.completion` is one chunk. Follows choice 0. What comes after the
    end is ignored. Raises ProtocolViolation for what is no chat reply at all; odd replies are read as well as they can
    be, and a reply that broke off ends in Failed. Where the profile says that calls come as text, they are read as
    `TextCalls` reads them, with the turn's `tools` and whether calls are `held`.
    """

    def __init__(
        self,
        new_id: NewId,
        profile: Profile = DEFAULT_PROFILE,
        tools: Sequence[Json] = (),
        buffered: bool = False,
    ) -> None:
        self.state = _WAITING
        self.usage: Usage | None = None
        """What was reported so far."""
        self._new_id = new_id
        self._profile = profile
        self._writer = ItemWriter(new_id)
        self._calls: CallAssembler | None = None
        self._text_calls = _new_text_call_decoder(self._writer, new_id, profile, tools, buffered) if tools else None
        self._reasoning = ReasoningReader()
        self._reasoning_runs: list[tuple[str, list[str]]] = []
        """The reasoning of the open item: its kind (`reasoning` or `summary`), and its texts in pieces."""
        self._edges = EdgeTrimmer()
        self._think_parser: ThinkParser | None = None
        self._annotations: list[Json] = []
        self._facts: Json = {}
        self._finish_reason: str | None = None
        self._is_plain = profile.parsing_format == "direct_response" and self._text_calls is None
        self.delta_run: ChatDeltaRun | None = None
        """What chunks are like that differ from the last one in their text only: they need not be parsed."""

    def decode_payloads(self, payloads: Sequence[bytes]) -> list[Event]:
        """`feed` for chunks as their bytes came. Raises orjson.JSONDecodeError too."""
        events: list[Event] = []
        at, count = 0, len(payloads)
        while at < count:
            if self.delta_run is not None:
                if texts := self.delta_run.texts_in_payloads(payloads[at:] if at else payloads):
                    events += self.delta_run.take_texts(texts)
                    at += len(texts)
                    continue
                self.delta_run = None
            payload = payloads[at]
            at += 1
            chunk = orjson.loads(payload)
            only = self._single_text(chunk) if self.state is _STREAMING else None
            if only is None:
                read = self._read_chunk(chunk)
                if self._calls is not None and read:
                    self._learn_arguments_run(payload, chunk, read)
            else:
                read = self._read_single_text(*only)
                if read:
                    self._learn_text_run(payload, *only, read[-1])
            events += read
        return events

    def _learn_text_run(self, payload: bytes, field: str, text: str, event: Event) -> None:
        """Learns a run of answer text or reasoning, if its texts pass this decoder unchanged."""
        if not isinstance(event, Delta) or event.part_index is None or event.text != text or self._annotations:
            return
        if field == "content":
            if self._is_plain and self._edges.is_idle:
                self.delta_run = ChatDeltaRun.from_delta(payload, field, event)
        elif self._edges.passes_reasoning:
            observers = (self._reasoning_runs[-1][1].append,)
            self.delta_run = ChatDeltaRun.from_delta(payload, field, event, observers, stops_at_line_break=True)

    def _learn_arguments_run(self, payload: bytes, chunk: Json, events: Sequence[Event]) -> None:
        """Learns a run of arguments from a chunk that did nothing but begin or continue those of one call."""
        event = events[-1]
        if self._calls is None or self.state is not _STREAMING or any(isinstance(each, Noted) for each in events):
            return
        match chunk:
            case {"choices": [{"delta": {"tool_calls": [dict(entry)], **other}}]} if not other:
                texts = self._calls.continued_texts(entry)
                if texts and isinstance(event, Delta) and event.part_index is None and event.text == texts[-1]:
                    self.delta_run = ChatDeltaRun.from_delta(payload, "arguments", event, (texts.append,))

    def feed(self, chunk: Json) -> list[Event]:
        """Take one chunk; return what it means, possibly nothing."""
        only = self._single_text(chunk) if self.state is _STREAMING else None
        return self._read_chunk(chunk) if only is None else self._read_single_text(*only)

    def finish(self) -> list[Event]:
        """The upstream said it is done, or closed. Without a finish reason that is a failure, not an answer."""
        if self.state is _ENDED:
            return []
        if self._finish_reason is None:
            return self._fail(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))
        if self._calls is not None and self._calls.has_nameless_call:
            return self._fail(Failed("upstream_garbled", "the upstream sent a tool call without a name"))
        reason: FinishReason = (
            "stop" if self._finish_reason == _WHOLE_COMPLETION else FINISH_REASONS.get(self._finish_reason, "other")
        )
        events = self._end_items("incomplete" if reason in _CUT_REASONS else "completed")
        self.state = _ENDED
        if self._text_calls is not None:
            events = self._cut_at_failure(events)
            if events and isinstance(events[-1], Failed):
                return events
        if reason in ("stop", "tool_calls"):  # upstreams say `stop` after calls, and `tool_calls` where none came
            reason = "tool_calls" if self._has_calls() else "stop"
        raw_reason = None if self._finish_reason == _WHOLE_COMPLETION else self._finish_reason
        events.append(self._writer.terminal_event(reason, raw_reason, self.usage))
        return events

    def _single_text(self, chunk: Json) -> tuple[str, str] | None:
        """(field, text) of a chunk that says nothing new but one text: nine in ten, so they are not read in full."""
        if not isinstance(chunk, dict):
            return None
        choices = chunk.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choice := choices[0], dict):
            return None
        delta = choice.get("delta")
        if not isinstance(delta, dict) or len(delta) != 1:
            return None
        ((field, text),) = delta.items()
        if field not in _TEXT_FIELDS or not isinstance(text, str):
            return None
        if choice.get("finish_reason") or choice.get("index") or choice.get("logprobs"):
            return None
        if choice.get("error") or chunk.get("error") or choice.get("usage") or chunk.get("usage"):
            return None
        return None if not _FACT_KEY_SET.isdisjoint(chunk) and self._new_facts(chunk) else (field, text)

    def _read_single_text(self, field: str, text: str) -> list[Event]:
        if field == "content":
            said = self._write_text("text", text) if self._is_plain else self._read_text(text, None)
            return said if self._text_calls is None else self._cut_at_failure(said)
        return self._write_text("reasoning", text) if self._reasoning.claim_source(field) else []

    def _read_chunk(self, chunk: Json) -> list[Event]:
        if self.state is _ENDED:
            return []
        if not isinstance(chunk, dict):
            raise ProtocolViolation("the upstream sent something that is not a JSON object")
        if ("error" in chunk or chunk.get("object") == "error") and (failed := failure_in(chunk)):
            return self._fail(failed)
        choices = chunk.get("choices")
        events: list[Event] = []
        if self.state is _WAITING:
            if choices is None and "usage" not in chunk and chunk.get("object") != "chat.completion.chunk":
                raise ProtocolViolation("the upstream sent a JSON object that is not a chat completion")
            self.state = _STREAMING
            events.append(Started(chunk.get("model") or "", chunk.get("id")))
        if "usage" in chunk:
            events += self._read_usage(chunk["usage"])
        if not _FACT_KEY_SET.isdisjoint(chunk):
            for key, fact in self._new_facts(chunk):
                self._facts[key] = fact
                events.append(Noted(facts={key: fact}))
        if isinstance(choices, list):
            for choice in choices:
                if not isinstance(choice, dict):
                    raise ProtocolViolation("the upstream sent a choice that is not a JSON object")
                if choice.get("index"):
                    continue  # asking for several choices is refused before it gets here
                events += self._read_choice(choice)
                if self.state is _ENDED:
                    break
        elif choices is not None:
            raise ProtocolViolation("the upstream sent choices that are not a list")
        return events if self._text_calls is None else self._cut_at_failure(events)

    def _new_facts(self, chunk: Json) -> list[tuple[str, Any]]:
        """What it says that was not said before."""
        known = self._facts
        return [(key, fact) for key in FACT_KEYS if (fact := chunk.get(key)) is not None and fact != known.get(key)]

    def _read_choice(self, choice: Json) -> list[Event]:
        logprobs = read_logprobs(choice) if choice.get("logprobs") else None
        delta = choice.get("delta")
        # Some servers repeat the whole message at the end of a stream.
        whole = delta is None and self._writer.item_count == 0 and choice.get("message") is not None
        said = choice["message"] if whole else delta or {}
        if not isinstance(said, dict):
            raise ProtocolViolation("the upstream sent a delta that is not a JSON object")
        events = self._read_delta(said, logprobs, whole=whole) if said or self._annotations else []
        if "usage" in choice:  # Moonshot
            events += self._read_usage(choice["usage"])
        reason = str(choice.get("finish_reason") or (_WHOLE_COMPLETION if whole else ""))
        if reason in BROKEN_FINISH_REASONS or choice.get("error"):
            failed = failure_in(choice) or Failed("upstream_error", "the upstream broke off its reply")
            return events + self._fail(failed)
        if reason and self._finish_reason is None:
            self._finish_reason = reason
            self.state = _DRAINING
        return events

    def _read_delta(self, delta: Json, logprobs: list[Json] | None, *, whole: bool) -> list[Event]:
        events: list[Event] = []
        is_plain = _PLAIN_DELTA_KEYS.issuperset(delta)
        if not (is_plain or REASONING_FIELDS.isdisjoint(delta)):
            for noun, text in self._reasoning.feed(delta):
                events += self._write_text(noun, text)
        if content := delta.get("content"):
            read = self._read_text if isinstance(content, str) else self._read_parts
            events += read(content, logprobs)
        if is_plain and not self._annotations:
            return events
        if refusal := delta.get("refusal"):
            events += self._write_text("refusal", str(refusal), logprobs)
        if isinstance(annotations := delta.get("annotations"), list):
            self._annotations += [_flatten_annotation(each) for each in annotations if isinstance(each, dict)]
        if self._annotations:
            events += self._annotate()
        calls = delta.get("tool_calls") or delta.get("function_call")
        if calls:
            self._edges.end_reasoning()
            ended = self._end_reasoning()
            if self._calls is None:
                self._calls = CallAssembler(self._writer)
            events += [*ended, *self._calls.feed(calls, whole=whole)]
        return events

    def _read_parts(self, content: Any, logprobs: list[Json] | None) -> list[Event]:
        events: list[Event] = []
        for part in content if isinstance(content, list) else [content]:
            match part:
                case str() | {"type": "text" | "output_text", "text": str()}:
                    events += self._read_text(part if isinstance(part, str) else part["text"], logprobs)
                case {"type": "thinking", "thinking": thinking}:  # Mistral
                    if self._reasoning.claim_source("content"):
                        events += self._write_text("reasoning", flatten_text(thinking))
                case {"type": "refusal", "refusal": str(refusal)}:
                    events += self._write_text("refusal", refusal, logprobs)
                case dict():
                    events.append(Opaque("chat", part))
                case _:
                    events += self._read_text(flatten_text(part), logprobs)
        return events

    def _read_text(self, text: str, logprobs: list[Json] | None) -> list[Event]:
        if self._profile.parsing_format == "direct_response":
            return self._write_text("text", text, logprobs)
        if self._think_parser is None:
            # An upstream that takes reasoning out itself has taken the template's tag out with it.
            self._think_parser = ThinkParser(
                open_at_start=self._profile.think_open and not self._reasoning.has_reasoning
            )
        return [event for noun, run in self._think_parser.feed(text) for event in self._write_text(noun, run, logprobs)]

    def _write_text(self, noun: str, text: str, logprobs: list[Json] | None = None) -> list[Event]:
        text = self._edges.feed(noun, text)
        if not text:
            return []
        events = [] if self._calls is None else self._calls.open_named_calls()
        if noun in ("reasoning", "summary"):
            if self._profile.reasoning_part == "summary_text":
                noun = "summary"
            if not self._reasoning_runs or self._reasoning_runs[-1][0] != noun:
                self._reasoning_runs.append((noun, []))
            self._reasoning_runs[-1][1].append(text)
            return events + self._writer.write_block(noun, text)
        # Blocks without text of their own come before the answer they led to; after it they wait for its end.
        if self._reasoning_runs or (self._reasoning.details and self._writer.item_count == 0):
            events += self._end_reasoning()
        if self._text_calls is not None and noun == "text":
            return events + self._text_calls.feed(text, logprobs)
        return events + self._writer.write_block(noun, text, logprobs)

    def _cut_at_failure(self, events: list[Event]) -> list[Event]:
        """Calls in text may turn out to be none when their beginning has been said: that is the end."""
        for at, event in enumerate(events):
            if isinstance(event, Failed):
                return [*events[:at], *self._fail(event)]
        return events

    def _annotate(self) -> list[Event]:
        """Citations may come before the text they belong to."""
        events = [event for each in self._annotations for event in self._writer.annotate(each)]
        if events:
            self._annotations = []
        return events

    def _end_reasoning(self, status: ItemStatus = "completed") -> list[Event]:
        """Close open reasoning. Blocks the upstream needs back go in its item, or else in one of their own."""
        thought, self._reasoning_runs = self._reasoning_runs, []
        details = self._reasoning.pop_details()
        if thought and not details:
            return self._writer.close_block(status)
        if thought:
            final = {**build_reasoning_item(self._writer.current_block or {}, thought), "details": details}
            if status == "incomplete":
                final["status"] = status
            return self._writer.close_block(status, final)
        return self._writer.write_item({**new_reasoning(self._new_id("rs")), "details": details}) if details else []

    def _end_items(self, status: ItemStatus) -> list[Event]:
        events: list[Event] = []
        if self._think_parser is not None:
            for noun, run in self._think_parser.finish():
                events += self._write_text(noun, run)
        if self._text_calls is not None:
            events += self._text_calls.finish(truncated=status == "incomplete")
        if self._annotations:
            events += self._annotate()
        if self._calls is not None:
            events += self._calls.close(truncated=status == "incomplete")
        in_reasoning = bool(self._reasoning_runs)
        if in_reasoning or self._reasoning.details:
            events += self._end_reasoning(status)
        return events + self._writer.close("completed" if in_reasoning else status)

    def _has_calls(self) -> bool:
        is_called = self._calls is not None and self._calls.has_calls
        return is_called or (self._text_calls is not None and self._text_calls.has_calls)

    def _read_usage(self, reported: Any) -> list[Event]:
        if not reported or not isinstance(reported, dict):
            return []
        self.usage = read_usage(reported, self.usage)
        return [Noted(self.usage)]

    def _fail(self, failed: Failed) -> list[Event]:
        self.state = _ENDED
        failed.usage = self.usage
        return [failed]


def _new_text_call_decoder(
    writer: ItemWriter, new_id: NewId, profile: Profile, tools: Sequence[Json], held: bool
) -> TextCallDecoder | None:
    """What reads calls out of the text, where they come so."""
    parser = PARSER_FACTORIES.get(profile.tool_parser if profile.text_tool_calls == "none" else profile.text_tool_calls)
    if parser is None:
        return None
    return TextCallDecoder(
        writer,
        new_id,
        parser(),
        tools,
        buffered=held,
        validation=profile.tool_validation,
        max_args_bytes=profile.max_tool_args_bytes,
    )


def _flatten_annotation(annotation: Json) -> Json:
    """Chat nests a citation under its type, Responses does not; there every field is required."""
    kind = annotation.get("type")
    nested = annotation.get(kind) if isinstance(kind, str) else None
    if kind != "url_citation" or not isinstance(nested, dict):
        return annotation
    return {"type": kind, "url": "", "title": "", "start_index": 0, "end_index": 0, **nested}
