"""Decodes Gemini's replies to events: the chunks of a stream, or one whole reply."""

from typing import Final

from translation.decoding.chunk_decoder import ChunkDecoder
from translation.decoding.context_overflow import find_bare_error
from translation.decoding.unshown_output import build_thought_image_event
from translation.decoding.usage import clamp_part, read_count
from translation.errors import ProtocolViolation
from translation.gemini.upstream import details
from translation.gemini.upstream.gemini_failures import (
    BROKEN_FINISH_REASONS,
    failure_from_block,
    failure_from_finish,
    failure_in,
)
from translation.gemini.upstream.grounding import build_search, build_url_citations
from translation.gemini.upstream.logprobs import read_logprobs
from translation.representation.events import Event, Failed, FinishReason, ItemStatus, Noted, Opaque, Started, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId, new_reasoning, new_summary_text
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.tools.arguments import render_arguments
from translation.tools.call_ids import CallIdAllocator

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "BLOCKLIST": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "RECITATION": "content_filter",
    "SAFETY": "content_filter",
    "SPII": "content_filter",
}
"""`finishReason` -> the reason of a Finished event. A value neither here nor in BROKEN_FINISH_REASONS is `other`."""

_REPLY_KEYS: Final = ("candidates", "promptFeedback", "usageMetadata")
"""A chunk of a reply has at least one of these keys."""

_CUT_REASONS: Final = ("length", "content_filter")
"""Reasons of a Finished event of an answer that was cut off."""

_CITATION_KEYS: Final = ("groundingMetadata", "citationMetadata")


class GeminiDecoder(ChunkDecoder):
    """Decodes one reply: its first candidate. The caller feeds every chunk, then calls `finish`. A whole reply is one
    chunk.

    Thoughts become summaries, as Gemini calls them. The searches of a reply are one item after its text. Signatures are
    in the `details` of a reasoning item: of the open one, or of a separate one before the signed call or image, or
    after the signed text. Raises ProtocolViolation for input that is not a reply of this API. A reply that broke off
    ends with Failed. The profile is not used, because Gemini parses its models' text itself.
    """

    def __init__(self, new_id: NewId, _profile: Profile = DEFAULT_PROFILE) -> None:
        self.usage: Usage | None = None
        """The token counts reported so far."""
        self._new_id = new_id
        self._writer = ItemWriter(new_id)
        self._ids = CallIdAllocator()
        self._started = self._has_calls = self._has_more_candidates = False
        self._finish_reason: str | None = None
        self._finish_message: str | None = None
        self._message_texts: list[str] = []
        """Pieces of the open message's text."""
        self._thought_texts: list[str] = []
        """Pieces of the open reasoning's text."""
        self._details: list[Json] = []
        """Details with the signatures that belong to the open item."""
        self._citation_metadata: Json = {}
        self._grounding: Json = {}
        """The grounding metadata reported so far."""

    @property
    def is_complete(self) -> bool:
        """Whether a finish reason has arrived. More chunks may still follow, until the stream ends."""
        return self._finish_reason is not None

    def feed(self, chunk: Json) -> list[Event]:
        if self.ended:
            return []
        if not isinstance(chunk, dict):
            raise ProtocolViolation("the upstream sent something that is not a JSON object")
        if chunk.get("error"):
            return self._fail(failure_in(chunk["error"]))
        if (text := find_bare_error(chunk, _REPLY_KEYS)) is not None:
            return self._fail(failure_in({"message": text}))
        if not self._started and not any(key in chunk for key in _REPLY_KEYS):
            raise ProtocolViolation("the upstream sent a JSON object that is not a reply")
        events = self._start_reply(chunk)
        if isinstance(reported := chunk.get("usageMetadata"), dict):
            self.usage = read_usage(reported, self.usage)
            events.append(Noted(usage=self.usage))
        feedback = chunk.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            return [*events, *self._fail(failure_from_block(feedback))]
        candidates = chunk.get("candidates")
        if not isinstance(candidates, list | None):
            raise ProtocolViolation("the upstream sent candidates that are not a list")
        for candidate in candidates or ():
            if not isinstance(candidate, dict):
                raise ProtocolViolation("the upstream sent a candidate that is not a JSON object")
            if self.ended:
                break
            if candidate.get("index"):
                # Requests for several are refused before they get here: nobody asked for this one.
                if not self._has_more_candidates:
                    self._has_more_candidates = True
                    events.append(Opaque("gemini", {"type": "candidate"}, is_output=True))
                continue
            events += self._read_candidate(candidate)
        return events

    def finish(self) -> list[Event]:
        """Ends the reply at the end of the stream. Without a finish reason it ends with Failed."""
        if self.ended:
            return []
        if self._finish_reason is None:
            return self._fail(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))
        reason = FINISH_REASONS.get(self._finish_reason, "other")
        if reason == "stop" and self._has_calls:
            reason = "tool_calls"
        events = self._end_block("incomplete" if reason in _CUT_REASONS else "completed")
        # In a stream the last chunk reports the searches, when their answer has been sent.
        if (search := build_search(self._grounding, self._new_id("ws"))) is not None:
            events += self._writer.write_item(search)
        self.ended = True
        return [
            *events,
            self._writer.terminal_event(reason, self._finish_reason, self.usage, self._finish_message),
        ]

    def _start_reply(self, chunk: Json) -> list[Event]:
        if self._started:
            return []
        self._started = True
        return [Started(model=chunk.get("modelVersion") or "", upstream_id=chunk.get("responseId"))]

    def _read_candidate(self, candidate: Json) -> list[Event]:
        events: list[Event] = []
        self._writer.add_logprobs(read_logprobs(candidate))
        content = candidate.get("content")
        if not isinstance(content, dict | None):
            raise ProtocolViolation("the upstream sent content that is not a JSON object")
        parts = (content or {}).get("parts")
        if not isinstance(parts, list | None):
            raise ProtocolViolation("the upstream sent parts that are not a list")
        for part in parts or ():
            if not isinstance(part, dict):
                raise ProtocolViolation("the upstream sent a part that is not a JSON object")
            events += self._read_part(part)
            if self.ended:
                return events
        self._citation_metadata |= {key: candidate[key] for key in _CITATION_KEYS if candidate.get(key)}
        if isinstance(grounding := candidate.get("groundingMetadata"), dict):
            self._grounding |= grounding
        reason = candidate.get("finishReason")
        if reason in BROKEN_FINISH_REASONS:
            return [*events, *self._fail(failure_from_finish(reason, candidate))]
        # A reason that says that the answer was cut off is not replaced by a later one.
        if reason and FINISH_REASONS.get(self._finish_reason or "") not in _CUT_REASONS:
            self._finish_reason = str(reason)
            message = candidate.get("finishMessage")
            self._finish_message = message if message and isinstance(message, str) else None
        return events

    def _read_part(self, part: Json) -> list[Event]:
        signature = part.get("thoughtSignature")
        signature = signature if isinstance(signature, str) else ""
        text = part.get("text")
        if not (isinstance(text, str | None) and isinstance(part.get("functionCall"), dict | None)):
            raise ProtocolViolation("the upstream sent a part whose text or call has another type")
        if isinstance(text, str):
            return self._emit_thought(text, signature) if part.get("thought") else self._emit_text(text, signature)
        if isinstance(call := part.get("functionCall"), dict):
            return self._emit_call(call, signature)
        if isinstance(medium := part.get("inlineData"), dict):
            if part.get("thought"):
                # An image that the model only tried out: it makes one like it again as its answer.
                # https://ai.google.dev/gemini-api/docs/image-generation#thinking-process
                return [*self._emit_thought("", signature), build_thought_image_event("gemini")]
            return self._emit_image(medium, signature)
        # A part of Gemini's own tools, which requests do not enable.
        return [Opaque("gemini", part, is_output=True)]

    def _emit_thought(self, text: str, signature: str) -> list[Event]:
        events = self._end_block() if self._message_texts else []
        if text:
            self._thought_texts.append(text)
            events += self._writer.write_block("summary", text)
        if signature:
            self._details.append(details.detail_of_thought(signature))
        return events

    def _emit_text(self, text: str, signature: str) -> list[Event]:
        events: list[Event] = []
        if text:
            events += [] if self._message_texts else self._end_block()
            self._message_texts.append(text)
            events += self._writer.write_block("text", text)
        if signature:
            if not self._message_texts:
                events += self._end_block()
            self._details.append(details.detail_of_text(signature, empty=not text))
        return events

    def _emit_call(self, call: Json, signature: str) -> list[Event]:
        name, upstream_id, args = call.get("name"), call.get("id"), call.get("args")
        if not isinstance(name, str) or not name:
            return self._fail(Failed("upstream_garbled", "the upstream sent a tool call without a name"))
        call_id = self._ids.claim(upstream_id if isinstance(upstream_id, str) else None)
        if signature:
            self._details.append(details.detail_of_call(signature, call_id))
        events = self._end_block()
        self._has_calls = True
        # Null means no arguments: protobuf's JSON has it for an unset message.
        arguments = "{}" if args is None else render_arguments(args)
        events += self._writer.open_call(call_id, name=name, call_id=call_id, arguments=arguments)
        return events + self._writer.close_call(call_id)

    def _emit_image(self, medium: Json, signature: str) -> list[Event]:
        kind, data = str(medium.get("mimeType")), medium.get("data")
        if not kind.startswith("image/") or not isinstance(data, str):
            return self._fail(Failed("upstream_error", f"the model replied with {kind}, which is not supported"))
        image = {
            "id": self._new_id("ig"),
            "type": "image_generation_call",
            "status": "completed",
            "result": data,
            "output_format": kind.removeprefix("image/"),
        }
        if signature:
            self._details.append(details.detail_of_image(signature))
        return [*self._end_block(), *self._writer.write_item(image)]

    def _end_block(self, status: ItemStatus = "completed") -> list[Event]:
        """Ends the open message or reasoning. Signatures go into the reasoning item, or into a separate one."""
        text, thought, item_details = "".join(self._message_texts), "".join(self._thought_texts), self._details
        self._message_texts, self._thought_texts, self._details = [], [], []
        if thought and item_details:
            start = self._writer.current_block or {}
            final = {**start, "summary": [{**new_summary_text(), "text": thought}], "details": item_details}
            return self._writer.close_block(status, final if status == "completed" else {**final, "status": status})
        events: list[Event] = []
        if text:
            events += [
                event
                for citation in build_url_citations(self._citation_metadata, text)
                for event in self._writer.annotate(citation)
            ]
            self._citation_metadata = {}
        events += self._writer.close_block(status)
        return (
            events + self._writer.write_item({**new_reasoning(self._new_id("rs")), "details": item_details})
            if item_details
            else events
        )

    def _fail(self, failed: Failed) -> list[Event]:
        self.ended = True
        failed.usage = self.usage
        return [failed]


def read_usage(reported: Json, before: Usage | None = None) -> Usage:
    """Returns the counts of a `usageMetadata` object. `before` is what the same stream reported earlier.
    https://ai.google.dev/api/generate-content#UsageMetadata

    Gemini counts thoughts apart from the answer, and the input of tools apart from the prompt. The returned `output`
    and `input` include them. Each chunk reports the counts so far: a missing or smaller count keeps its earlier value.
    `raw` is Gemini's object, unchanged.
    """
    answer, thoughts = read_count(reported.get("candidatesTokenCount")), read_count(reported.get("thoughtsTokenCount"))
    prompt, tools = read_count(reported.get("promptTokenCount")), read_count(reported.get("toolUsePromptTokenCount"))
    earlier = before or Usage()
    usage = Usage(
        input=_latest(_sum(prompt, tools), earlier.input),
        output=_latest(_sum(answer, thoughts), earlier.output),
        cache_read=_latest(read_count(reported.get("cachedContentTokenCount")), earlier.cache_read),
        reasoning=_latest(thoughts, earlier.reasoning),
        raw=reported,
    )
    usage.cache_read = clamp_part(usage.cache_read, usage.input)
    usage.reasoning = clamp_part(usage.reasoning, usage.output)
    return usage


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None and second is None else (first or 0) + (second or 0)


def _latest(count: int | None, before: int | None) -> int | None:
    return before if count is None else max(count, before or 0)
