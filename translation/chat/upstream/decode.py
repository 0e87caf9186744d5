"""Decodes the reply of a chat upstream to events: the chunks of a stream, or one whole completion."""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

import orjson

from translation.chat.calls import CallAssembler
from translation.chat.delta_run import ChatDeltaRun
from translation.chat.final_message import StreamedMessage
from translation.chat.odd_deltas import make_thoughts_texts, read_refusal_text, require_own_text
from translation.chat.reasoning import DETAILS_FIELD, ReasoningReader, build_reasoning_item, list_text_fields
from translation.chat.reply_objects import FINISH_REASONS, build_image_item, flatten_annotation, flatten_text
from translation.chat.upstream.chat_failures import BROKEN_FINISH_REASONS, failure_in
from translation.chat.usage import read_logprobs, read_usage
from translation.decoding.unshown_output import build_final_text_event, find_unknown_media
from translation.errors import ProtocolViolation
from translation.exact_numbers import parse_with_tool_data
from translation.parsers.edges import EdgeTrimmer
from translation.parsers.tagged_text import TaggedTextReader
from translation.parsers.text_calls import create_text_call_decoder
from translation.representation.events import (
    STOP_SEQUENCE_FACT,
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
from translation.representation.streamed_text import StreamedText

FACT_KEYS: Final = ("service_tier", "system_fingerprint")
"""Keys of a chunk that become facts of a `Noted` event."""

_FACT_KEY_SET: Final = frozenset(FACT_KEYS)

_SOURCE_KEYS: Final = frozenset({"citations", "search_results"})
"""Keys of a chunk that list the pages which an answer relies on, of Perplexity and xAI. Nothing else names them, unless
the message has annotations too."""

_NOTED_KEYS: Final = _FACT_KEY_SET | _SOURCE_KEYS
"""Keys of a chunk that are noted once, although servers send them with each chunk."""

_PLAIN_DELTA_KEYS: Final = frozenset({"role", "content"})
"""The only keys of most deltas."""

_MORE_IN_CHUNK: Final = ("error", "usage")
_MORE_IN_CHOICE: Final = ("finish_reason", "index", "logprobs", "message", *_MORE_IN_CHUNK)
"""Keys of a chunk and of its choice that say more than one text, unless their values are empty."""

_MIN_LEARNT: Final = 8
"""From so many chunks in one read on, learning their delta run costs less than parsing each. In a shorter read only the
last chunk is learnt from, for the next read."""

_WHOLE_COMPLETION: Final = "whole answer"
"""The finish reason of a whole completion that has none. Such a completion cannot have been truncated."""

_CUT_REASONS: Final = ("length", "content_filter")
"""Reasons of a Finished event whose last item is incomplete."""


@lru_cache(64)
def _find_fields(configured: Sequence[str]) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
    """Returns the fields of reasoning in their order, those that may hold text, and those that may hold reasoning.

    The results are few.
    """
    fields = list_text_fields(configured)
    return fields, frozenset({"content", *fields}), frozenset({DETAILS_FIELD, *fields})


class DecoderState(Enum):
    WAITING = auto()  # nothing seen
    STREAMING = auto()  # deltas flowing
    DRAINING = auto()  # finish_reason seen; usage may still follow
    ENDED = auto()


_WAITING, _STREAMING, _DRAINING, _ENDED = DecoderState
"""The members as globals. Each chunk compares with some, and a lookup on the Enum costs a call."""


_READ_DELTA_KEYS: Final = frozenset({"audio", "images"})
"""The keys of media in a delta or message that are decoded."""


class ChatDecoder:
    """Decodes one reply. States: WAITING -> STREAMING -> DRAINING -> ENDED. Has no I/O and no clock.

    Feed every chunk, then call `finish`. A whole `chat.completion` counts as one chunk. Only choice 0 is decoded.
    Chunks after the end are ignored. Raises ProtocolViolation for input that is no chat reply at all. Unusual replies
    are decoded as far as possible, and a reply that broke off ends in Failed. `new_id` makes the ids of items. If the
    profile says that calls come as text, `TextCallDecoder` decodes them, with the turn's `tools`.
    """

    def __init__(
        self,
        new_id: NewId,
        profile: Profile = DEFAULT_PROFILE,
        tools: Sequence[Json] = (),
    ) -> None:
        self.state = _WAITING
        self.usage: Usage | None = None
        """The token counts that the upstream reported so far."""
        self._calls: CallAssembler | None = None
        self._finish_reason: str | None = None
        self._new_id = new_id
        self._profile = profile
        self._writer = ItemWriter(new_id)
        self._text_calls = create_text_call_decoder(self._writer, new_id, profile, tools) if tools else None
        reasoning_fields, self._text_fields, self._reasoning_fields = _find_fields(profile.reasoning_fields)
        self._reasoning = ReasoningReader(reasoning_fields)
        has_tags = profile.parsing_format != "direct_response"
        self._streamed = StreamedMessage(reasoning_fields, separates_thoughts=has_tags)
        self._edges = EdgeTrimmer()
        self._tagged_text = TaggedTextReader(profile) if has_tags else None
        self._annotations: list[Json] = []
        self._has_annotations = False
        self._source_keys: dict[str, None] = {}
        """The keys with which the upstream listed sources beside its message, each once."""
        self._reported: set[str] = set()
        """The kinds of output without a form that were reported: each is once."""
        self._facts: Json = {}
        self._is_plain = not has_tags and self._text_calls is None
        self.delta_run: ChatDeltaRun | None = None
        """The delta run that the last chunk belongs to, if it was learnt. Chunks of the run need not be parsed."""

    def decode_payloads(self, payloads: Sequence[bytes], batch: list[Event] | None = None) -> list[Event]:
        """Returns the events of chunks given as JSON bytes, without parsing those of a known delta run.

        Appends to `batch`, if given, so that the events before an error are not lost. Raises orjson.JSONDecodeError for
        bytes that are not JSON, and ProtocolViolation as `feed` does.
        """
        events = [] if batch is None else batch
        position, count = 0, len(payloads)
        learns_at = count - 1 if count < _MIN_LEARNT else 0
        # Remembers a further text of the answer that passes unchanged. Its chunk is then read without a step for each
        # layer of this decoder.
        note_further: Callable[[str], object] | None = None
        index, part_index = 0, None
        while position < count:
            if self.delta_run is not None:
                if texts := self.delta_run.read_payload_texts(payloads[position:] if position else payloads):
                    events += self.delta_run.take_texts(texts)
                    position += len(texts)
                    continue
                self.delta_run = None
            payload = payloads[position]
            position += 1
            chunk = orjson.loads(payload) if payload.find(b'"arguments"') < 0 else parse_with_tool_data(payload)
            single_text = self._single_text(chunk) if self.state is _STREAMING else None
            if single_text is None:
                note_further = None
                chunk_events = self._read_chunk(chunk)
                if self._calls is not None and chunk_events:
                    self._learn_delta_run_of_arguments(payload, chunk, chunk_events)
            else:
                field, text = single_text
                if note_further is not None and field == "content" and position <= learns_at:
                    if text:
                        note_further(text)
                        events.append(Delta(index, part_index, text))
                    continue
                note_further = None
                streamed_text = self._streamed.text_of(field)
                chunk_events = self._read_single_text(field, text, streamed_text)
                if chunk_events and isinstance(event := chunk_events[-1], Delta):
                    if position > learns_at:
                        self._learn_delta_run_of_text(payload, field, event, text, streamed_text)
                    elif field == "content" and self._passes_unchanged(event, text, streamed_text):
                        note_further, index, part_index = streamed_text.make_appender(), event.index, event.part_index
            events += chunk_events
        return events

    def _learn_delta_run_of_text(
        self, payload: bytes, field: str, event: Delta, text: str, streamed_text: StreamedText
    ) -> None:
        """Learns a delta run of answer text or reasoning, if its texts pass this decoder unchanged."""
        if field == "content":
            if self._passes_unchanged(event, text, streamed_text):
                self.delta_run = ChatDeltaRun.from_delta(payload, field, event, streamed_text=streamed_text)
        elif _is_of_part(event, text) and not self._annotations:
            # Untrimmed reasoning: further texts stay untrimmed, except for line breaks at their end.
            observers = (self._reasoning.segments[-1][1].append,)
            self.delta_run = ChatDeltaRun.from_delta(payload, field, event, observers, self._edges, streamed_text)

    def _passes_unchanged(self, event: Delta, text: str, streamed_text: StreamedText) -> bool:
        """Returns whether further texts of the answer pass this decoder as they are, as this one did in `event`."""
        return (
            self._is_plain
            and self._edges.is_idle
            and _is_of_part(event, text)
            and not (self._annotations or streamed_text.needs_reading)
        )

    def _learn_delta_run_of_arguments(self, payload: bytes, chunk: Json, events: Sequence[Event]) -> None:
        """Learns a delta run of arguments, if the chunk only began or continued the arguments of one call."""
        event = events[-1]
        if self._calls is None or self.state is not _STREAMING or any(isinstance(other, Noted) for other in events):
            return
        match chunk:
            case {"choices": [{"delta": {"tool_calls": [dict(entry)], **other}}]} if not other:
                texts = self._calls.continued_texts(entry)
                if texts and isinstance(event, Delta) and event.part_index is None and event.text == texts[-1]:
                    self.delta_run = ChatDeltaRun.from_delta(payload, "arguments", event, (texts.append,))

    def feed(self, chunk: Json) -> list[Event]:
        """Returns the events of one parsed chunk, possibly none. Raises ProtocolViolation if it is not chat."""
        single_text = self._single_text(chunk) if self.state is _STREAMING else None
        if single_text is None:
            return self._read_chunk(chunk)
        field, text = single_text
        return self._read_single_text(field, text, self._streamed.text_of(field))

    def finish(self) -> list[Event]:
        """Ends the reply, because the upstream sent `[DONE]` or closed. Returns the last events.

        A reply without a finish reason broke off, so it ends in Failed.
        """
        if self.state is _ENDED:
            return []
        if self._finish_reason is None:
            return self._fail(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))
        events: list[Event] = []
        if (final_message := self._streamed.final_message) is not None:
            try:
                events += self._read_missing(final_message)
            except ProtocolViolation as violation:
                return self._fail(Failed("upstream_garbled", str(violation)))
        if self._streamed.has_other_form:
            events.append(build_final_text_event())
        if self._writer.item_count and not self._has_annotations:
            events += [Opaque("chat", {"type": key}, is_output=True) for key in self._source_keys]
        if self._calls is not None and self._calls.has_nameless_call:
            return self._fail(Failed("upstream_garbled", "the upstream sent a tool call without a name"))
        reason: FinishReason = (
            "stop" if self._finish_reason == _WHOLE_COMPLETION else FINISH_REASONS.get(self._finish_reason, "other")
        )
        events += self._end_items("incomplete" if reason in _CUT_REASONS else "completed")
        self.state = _ENDED
        if reason in ("stop", "tool_calls"):  # upstreams send `stop` after calls, and `tool_calls` without any
            reason = "tool_calls" if self._has_calls() else "stop"
        raw_reason = None if self._finish_reason == _WHOLE_COMPLETION else self._finish_reason
        events.append(self._writer.terminal_event(reason, raw_reason, self.usage))
        return events

    def _single_text(self, chunk: Json) -> tuple[str, str] | None:
        """Returns (field, text) of a chunk whose only new content is one text, None for any other chunk.

        Nine chunks in ten are such. They skip `_read_chunk`.
        """
        if not isinstance(chunk, dict) or self._streamed.final_message is not None:
            return None
        choices = chunk.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choice := choices[0], dict):
            return None
        delta = choice.get("delta")
        if not isinstance(delta, dict) or len(delta) != 1:
            return None
        ((field, text),) = delta.items()
        if field not in self._text_fields or not isinstance(text, str):
            return None
        if any(map(choice.get, _MORE_IN_CHOICE)) or any(map(chunk.get, _MORE_IN_CHUNK)):
            return None
        if not _NOTED_KEYS.isdisjoint(chunk) and (self._new_facts(chunk) or self._new_source_keys(chunk)):
            return None
        return field, text

    def _read_single_text(self, field: str, text: str, streamed_text: StreamedText) -> list[Event]:
        if field == "content":
            streamed_text.add(text)
            return self._write_text("text", text) if self._is_plain else self._read_text(text)
        if not (text and self._reasoning.claim_source(field)):
            return []
        streamed_text.add(text)
        return self._write_reasoning("reasoning", text)

    def _read_chunk(self, chunk: Json) -> list[Event]:
        if self.state is _ENDED:
            return []
        if not isinstance(chunk, dict):
            raise ProtocolViolation("the upstream sent something that is not a JSON object")
        if ("error" in chunk or "choices" not in chunk) and (failed := failure_in(chunk)):
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
        if not _NOTED_KEYS.isdisjoint(chunk):
            self._source_keys |= dict.fromkeys(self._new_source_keys(chunk))
            for key, fact in self._new_facts(chunk):
                self._facts[key] = fact
                events.append(Noted(facts={key: fact}))
        if isinstance(choices, list):
            for choice in choices:
                if not isinstance(choice, dict):
                    raise ProtocolViolation("the upstream sent a choice that is not a JSON object")
                if (index := choice.get("index")) and not isinstance(index, int):
                    raise ProtocolViolation("the index of a choice in the upstream's stream is not a number")
                if index:
                    # Requests for several choices are refused before they get here: nobody asked for this one.
                    events += self._report_once("choice")
                    continue
                events += self._read_choice(choice)
                if self.state is _ENDED:
                    break
        elif choices is not None:
            raise ProtocolViolation("the upstream sent choices that are not a list")
        return events

    def _report_once(self, kind: str) -> Sequence[Event]:
        """Returns the event of output that has no form, the first time that there is any of this kind."""
        if kind in self._reported:
            return ()
        self._reported.add(kind)
        return (Opaque("chat", {"type": kind}, is_output=True),)

    def _new_facts(self, chunk: Json) -> list[tuple[str, Any]]:
        """Returns the facts of a chunk, as (key, value), that are not known yet."""
        known = self._facts
        return [(key, fact) for key in FACT_KEYS if isinstance(fact := chunk.get(key), str) and fact != known.get(key)]

    def _new_source_keys(self, chunk: Json) -> list[str]:
        """Returns the keys of a chunk that list sources, and that no chunk before it had."""
        return [key for key in sorted(_SOURCE_KEYS) if chunk.get(key) and key not in self._source_keys]

    def _read_choice(self, choice: Json) -> list[Event]:
        if choice.get("logprobs"):
            self._writer.add_logprobs(read_logprobs(choice))
        delta = choice.get("delta")
        message = choice.get("message")
        whole = delta is None and self._writer.item_count == 0 and message is not None
        content = message if whole else delta or {}
        if not isinstance(content, dict):
            raise ProtocolViolation("the upstream sent a delta that is not a JSON object")
        if not content or "text" in content:
            require_own_text(choice, content)
        if content:
            if not _PLAIN_DELTA_KEYS.issuperset(content):
                make_thoughts_texts(content, self._reasoning.text_fields)
            (self._streamed.begin_whole if whole else self._streamed.add)(content)
        events = self._read_delta(content, whole=whole) if content or self._annotations else []
        if not whole and (message is not None or self._streamed.final_message is not None):
            is_last = bool(self._finish_reason or choice.get("finish_reason"))
            self._streamed.note_message(message, content, is_last=is_last)
        if "usage" in choice:  # Moonshot
            events += self._read_usage(choice["usage"])
        reason = str(choice.get("finish_reason") or (_WHOLE_COMPLETION if whole else ""))
        if reason in BROKEN_FINISH_REASONS or choice.get("error"):
            failed = failure_in(choice) or Failed("upstream_error", "the upstream broke off its reply")
            return events + self._fail(failed)
        # A later reason that says that the answer was cut off is the one that counts.
        is_first = self._finish_reason in (None, _WHOLE_COMPLETION)
        if reason and (is_first or FINISH_REASONS.get(reason) in _CUT_REASONS):
            self._finish_reason = reason
            self.state = _DRAINING
            if isinstance(stop := choice.get("stop_reason"), str):  # vLLM
                events.append(Noted(facts={STOP_SEQUENCE_FACT: stop}))
        return events

    def _read_missing(self, message: Json) -> list[Event]:
        """Returns the events of what the final message has beyond the deltas. Raises ProtocolViolation if it differs
        from them."""
        missing = self._streamed.build_missing_delta(message)
        events = self._read_delta(missing, whole=False) if missing else []
        calls = message.get("tool_calls") or message.get("function_call")
        if not calls or (self._text_calls is not None and self._text_calls.has_calls):
            return events
        events += self._end_text()
        self._calls = self._calls or CallAssembler(self._writer, self._new_id)
        return [*events, *self._calls.complete(calls)]

    def _end_text(self) -> list[Event]:
        """Ends text and reasoning, because calls follow."""
        events = self._interrupt_tags()
        self._edges.end_reasoning()
        return [*events, *self._end_reasoning()]

    def _read_delta(self, delta: Json, *, whole: bool) -> list[Event]:
        """Returns the events of one delta, or of a `whole` message. Its fields are read in the order in which clients
        have to see them: reasoning, text, refusal, media, calls."""
        events: list[Event] = []
        is_plain = _PLAIN_DELTA_KEYS.issuperset(delta)
        if not (is_plain or self._reasoning_fields.isdisjoint(delta)):
            for kind, text in self._reasoning.feed(delta):
                events += self._write_reasoning(kind, text)
        if content := delta.get("content"):
            if not isinstance(content, str):
                events += self._read_parts(content)
            elif self._is_plain:
                events += self._write_text("text", content)
            else:
                events += self._read_text(content)
        if is_plain and not self._annotations:
            return events  # nearly every delta has text and nothing else
        if refusal := delta.get("refusal"):
            events += self._interrupt_tags()
            events += self._write_text("refusal", read_refusal_text(refusal))
        if isinstance(annotations := delta.get("annotations"), list):
            self._annotations += [
                flatten_annotation(annotation) for annotation in annotations if isinstance(annotation, dict)
            ]
        if self._annotations:
            self._has_annotations = True
            events += self._annotate()
        if images := delta.get("images"):
            for image in images if isinstance(images, list) else [images]:
                events += self._write_image(image)
        if isinstance(audio := delta.get("audio"), dict) and audio:
            events += self._report_once("audio")
        events += find_unknown_media(delta, _READ_DELTA_KEYS, "chat")
        calls = delta.get("tool_calls") or delta.get("function_call")
        if calls:
            events += self._end_text()
            if self._calls is None:
                self._calls = CallAssembler(self._writer, self._new_id)
            events += self._calls.feed(calls, whole=whole)
        return events

    def _read_parts(self, content: Any) -> list[Event]:
        events: list[Event] = []
        for part in content if isinstance(content, list) else [content]:
            match part:
                case str() | {"type": "text" | "output_text", "text": str()}:
                    events += self._read_text(part if isinstance(part, str) else part["text"])
                case {"type": "thinking", "thinking": thinking}:  # Mistral
                    if self._reasoning.claim_source("content"):
                        events += self._write_reasoning("reasoning", flatten_text(thinking))
                case {"type": "image_url"}:
                    events += self._write_image(part)
                case {"type": "refusal", "refusal": str(refusal)}:
                    events += self._write_text("refusal", refusal)
                case dict():
                    events.append(Opaque("chat", part, is_output=True))
                case _:
                    events += self._read_text(flatten_text(part))
        return events

    def _write_image(self, image: Any) -> list[Event]:
        """Writes an image of the model, which is the item that the Responses API has for it."""
        item = build_image_item(image, self._new_id)
        if item is None:
            return [Opaque("chat", {"type": "image_url"}, is_output=True)]
        events = self._interrupt_tags()
        if self._text_calls is not None:
            events += self._text_calls.interrupt()
        self._edges.end_reasoning()
        return [*events, *self._end_reasoning(), *self._writer.write_item(item)]

    def _read_text(self, text: str) -> list[Event]:
        if self._tagged_text is None:
            return self._write_text("text", text)
        segments = self._tagged_text.feed(text)
        if self._tagged_text.is_over:
            self._is_plain = self._text_calls is None
        return self._write_segments(segments)

    def _write_reasoning(self, kind: str, text: str) -> list[Event]:
        """Writes reasoning that the upstream reports apart from the text."""
        if self._tagged_text is None:
            return self._write_text(kind, text)
        return self._write_segments(self._tagged_text.expect_no_reasoning()) + self._write_text(kind, text)

    def _interrupt_tags(self) -> list[Event]:
        """Writes the text that was held back as the beginning of a tag, because other output follows, or nothing."""
        return [] if self._tagged_text is None else self._write_segments(self._tagged_text.interrupt())

    def _write_segments(self, segments: Sequence[tuple[str, str]]) -> list[Event]:
        return [event for segment in segments for event in self._write_text(*segment)]

    def _write_text(self, kind: str, text: str) -> list[Event]:
        text = self._edges.feed(kind, text)
        if not text:
            return []
        events = [] if self._calls is None else self._calls.prepare_text()
        if kind in ("reasoning", "summary"):
            if self._profile.reasoning_part == "summary_text":
                kind = "summary"
            self._reasoning.add_text(kind, text)
            return events + self._writer.write_block(kind, text)
        # Details without text are sent before the answer that they led to. Details that come later wait for its end.
        reasoning = self._reasoning
        if reasoning.segments or (reasoning.details and self._writer.item_count == 0):
            events += self._end_reasoning()
        if self._text_calls is not None and kind == "text":
            return events + self._text_calls.feed(text)
        return events + self._writer.write_block(kind, text)

    def _annotate(self) -> list[Event]:
        """Writes the citations. Citations that came before their text are written later."""
        if not self._writer.is_in_text:
            return []
        annotations, self._annotations = self._annotations, []
        return [event for annotation in annotations for event in self._writer.annotate(annotation)]

    def _end_reasoning(self, status: ItemStatus = "completed") -> list[Event]:
        """Ends open reasoning.

        The details that the upstream needs back go into the open item. Without one they get an item of their own.
        """
        segments, details = self._reasoning.pop_segments(), self._reasoning.pop_details()
        if segments and not details:
            return self._writer.close_block(status)
        if segments:
            final = {**build_reasoning_item(self._writer.current_block or {}, segments), "details": details}
            if status == "incomplete":
                final["status"] = status
            return self._writer.close_block(status, final)
        return self._writer.write_item({**new_reasoning(self._new_id("rs")), "details": details}) if details else []

    def _end_items(self, status: ItemStatus) -> list[Event]:
        events = self._interrupt_tags()
        if self._text_calls is not None:
            events += self._text_calls.finish(truncated=status == "incomplete")
        if self._annotations:
            events += self._annotate()
        if self._calls is not None:
            events += self._calls.close(truncated=status == "incomplete")
        in_reasoning = bool(self._reasoning.segments)
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


def _is_of_part(event: Delta, text: str) -> bool:
    """Returns whether an event appends a text, as it came, to a part."""
    return event.part_index is not None and event.text == text
