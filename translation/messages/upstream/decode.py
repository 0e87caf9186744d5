"""Decodes replies of the Messages API to events: a stream of content blocks, or one whole message.

https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from dataclasses import replace
from typing import Any, Final

from translation.decoding.chunk_decoder import ChunkDecoder
from translation.decoding.context_overflow import find_bare_error, is_context_overflow
from translation.decoding.usage import read_message_usage
from translation.encoding.visible_output import UNREPORTED_FACT
from translation.errors import ProtocolViolation
from translation.messages.upstream.citations import annotation_of, read_citations
from translation.messages.upstream.details import detail_of
from translation.messages.upstream.searches import SearchDecoder
from translation.representation.events import (
    STOP_DETAILS_FACT,
    STOP_SEQUENCE_FACT,
    Event,
    Failed,
    Finished,
    FinishReason,
    ItemStatus,
    Noted,
    Opaque,
    Started,
    Usage,
)
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId, new_reasoning, new_reasoning_text, new_summary_text
from translation.representation.json_types import Item, Json, mapping_or_empty
from translation.representation.loss import DROPPED_THINKING
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.tools.arguments import is_same_json, render_arguments
from translation.tools.call_ids import CallIdAllocator
from translation.tools.searches import WEB_SEARCH

_PAUSE: Final = "pause_turn"

STOP_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    _PAUSE: "length",  # the API's own tools reached their limit of rounds: the reply is not complete
    "refusal": "content_filter",
}
"""`stop_reason` -> the reason of a Finished event. A value that is not listed is `other`."""


def read_stop_reason(stop_reason: Any) -> FinishReason:
    """Returns the reason of a Finished event for a message's `stop_reason`."""
    return STOP_REASONS.get(str(stop_reason), "other")


_CUT_REASONS: Final = ("length", "content_filter")
"""Reasons of a Finished event of an answer that was cut off."""

_SERVICE_TIERS: Final = {"standard": "default", "priority": "priority"}

BLOCK_OF_DELTA: Final = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
"""Type of a delta -> type of the block that it extends."""

DELTA_BLOCKS: Final = frozenset(BLOCK_OF_DELTA.values())
"""The types of the blocks that these deltas extend. Blocks of other types may have any deltas."""

DELTA_KEYS: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""Type of a delta -> its key, whose text is appended to the block."""

NOT_OPEN: Final = "the upstream sent a delta for a block that is not open"

_MAX_DETAIL_CHARS: Final = 1_000

_NO_STOP_REASON: Final = "whole answer"
"""Replaces the missing stop reason of a whole message. Such a message cannot have been truncated."""

_ERROR_CODES: Final = {
    "authentication_error": "upstream_unauthorized",
    "permission_error": "upstream_unauthorized",
    "billing_error": "insufficient_quota",
    "overloaded_error": "upstream_overloaded",
    "rate_limit_error": "rate_limited",
    "timeout_error": "upstream_timeout",
}
"""The API's error type -> the gateway's code. Any other is an `upstream_error`."""

_DROP_TYPE: Final = "thinking_dropped"
"""The type of an entry of `input_transformations` for a block that the model was not shown. Entries of the type
`thinking_mismatch_allowed` are for blocks that it was shown all the same.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking"""

_NO_MESSAGE: Final = "the upstream reported an error without saying which"


def is_blank_delta(delta: Any) -> bool:
    """Returns whether a delta has a text without ink. If it fits no block it says nothing, and has to be left out,
    because clients fail at it.

    SGLang sends the white space between two calls as a text into the call, and servers that build their deltas from
    chat chunks send empty texts into thinking.
    """
    fields = mapping_or_empty(delta)
    kind = fields.get("type")
    text = fields.get(DELTA_KEYS.get(kind, "")) if isinstance(kind, str) else None
    return isinstance(text, str) and not text.strip()


def is_own_delta(block_type: Any, delta: Json) -> bool:
    """Returns whether a delta has a type of its block; False for a blank one of another type.

    A type that is not known may be newer than the table, so that it says nothing. Raises ProtocolViolation for a delta
    of another type that has a text.
    """
    if block_type not in DELTA_BLOCKS or BLOCK_OF_DELTA.get(delta["type"], block_type) == block_type:
        return True
    if is_blank_delta(delta):
        return False
    raise ProtocolViolation("the upstream sent a delta whose type does not match its block")


class AnthropicDecoder(ChunkDecoder):
    """Decodes one reply. A state machine: it waits for `message_start`, then reads blocks, then has ended.

    The caller feeds every event, then calls `finish`. A whole message is one event. Each thinking block becomes a
    reasoning item, whose `details` hold the block verbatim. Events after the end are ignored. Raises ProtocolViolation
    for input that is not a reply of this API, and TypeError or KeyError for values whose types differ from the API's. A
    reply that broke off ends with Failed.
    """

    def __init__(self, new_id: NewId, profile: Profile = DEFAULT_PROFILE) -> None:
        self.usage: Usage | None = None
        """The token counts reported so far."""
        self._new_id = new_id
        self._reasoning_kind = "summary" if profile.reasoning_part == "summary_text" else "reasoning"
        self._writer = ItemWriter(new_id)
        self._ids = CallIdAllocator()
        self._searches = SearchDecoder(new_id, self._writer)
        self._started = False
        self._stop_reason: str | None = None
        self._stop_explanation: str | None = None
        self._has_dropped_thinking = False
        """Whether the API says that it dropped thinking of the request."""
        self._block_index: Any = None
        self._block: Json = {}
        """The open block in its initial form. Signatures and citations of its deltas are added under the API's keys."""
        self._is_stopped = False
        """Whether the block has ended. It is closed once the next one begins."""
        self._deltas: list[str] = []
        self._signature: list[str] = []
        self._open_message: Item | None = None
        self._message_length = 0
        """Characters of that message's text so far."""
        self._call_count = 0
        self._repeated_input: list[str] = []
        """Deltas of a call whose block began with the whole input."""

    def feed(self, chunk: Json) -> list[Event]:
        """Takes one event, or one whole message, and returns its events, possibly none."""
        if self.ended:
            return []
        if not isinstance(chunk, dict):
            raise ProtocolViolation("the upstream sent something that is not a JSON object")
        kind = chunk.get("type")
        if kind == "error" or chunk.get("error"):
            return self._fail(failure_in(chunk.get("error")))
        if kind == "ping":
            return []
        if not isinstance(kind, str):
            if (text := find_bare_error(chunk, ())) is not None:
                return self._fail(failure_in({"message": text}))
            raise ProtocolViolation("the upstream sent an event without a type")
        if kind == "message":
            return self._decode_message(chunk)
        if kind == "message_start":
            return self._start_message(chunk["message"])
        if not self._started:
            raise ProtocolViolation("the upstream's reply does not begin with a message")
        match kind:
            case "content_block_delta":
                return self._decode_delta(chunk["index"], chunk["delta"])
            case "content_block_start":
                return self._open_block(chunk["index"], chunk["content_block"])
            case "content_block_stop":
                self._check_repeated_input()
                self._is_stopped = True
                return self._emit_annotations(self._block)
            case "message_delta":
                self._read_transformations(chunk)  # only there if another model has taken over
                return self._end_message(chunk["delta"], chunk.get("usage"))
            case "message_stop":
                return self.finish()
        return [Opaque("anthropic", chunk)]

    def finish(self) -> list[Event]:
        """Ends the reply, at the end of the message or of the stream. Without a stop reason it ends with Failed."""
        if self.ended:
            return []
        if self._stop_reason is None:
            return self._fail(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))
        reason = STOP_REASONS.get(self._stop_reason, "stop" if self._stop_reason == _NO_STOP_REASON else "other")
        if reason in ("stop", "tool_calls"):
            reason = "tool_calls" if self._call_count else "stop"
        status: ItemStatus = "incomplete" if reason in _CUT_REASONS else "completed"
        try:
            events = self._close_block(status)
        except ProtocolViolation as violation:
            return self._fail(Failed("upstream_garbled", str(violation)))
        events += [*self._searches.close(is_paused=self._stop_reason == _PAUSE), *self._writer.close(status)]
        self.ended = True
        end = self._writer.terminal_event(
            reason,
            None if self._stop_reason == _NO_STOP_REASON else self._stop_reason,
            self.usage,
            self._stop_explanation,
        )
        if self._has_dropped_thinking and isinstance(end, Finished):
            # The fact is for the log and the header of a whole reply. The headers of a stream are sent by now.
            return [*events, Noted(facts={UNREPORTED_FACT: DROPPED_THINKING}), replace(end, lacks=(DROPPED_THINKING,))]
        return [*events, end]

    def _read_transformations(self, holder: Json) -> None:
        """Reads what the API says that it changed in the request. A later statement replaces the first."""
        if isinstance(listed := holder.get("input_transformations"), list):
            self._has_dropped_thinking = any(mapping_or_empty(entry).get("type") == _DROP_TYPE for entry in listed)

    def _start_message(self, message: Json) -> list[Event]:
        if self._started:
            raise ProtocolViolation("the upstream began a second message in the same reply")
        self._started = True
        self._read_transformations(message)
        model, upstream_id = message.get("model"), message.get("id")
        events: list[Event] = [
            Started(model if isinstance(model, str) else "", upstream_id if isinstance(upstream_id, str) else None)
        ]
        return events + self._update_usage(message.get("usage"))

    def _decode_message(self, message: Json) -> list[Event]:
        events = self._start_message(message)
        for index, block in enumerate(message["content"]):
            events += [*self._open_block(index, block), *self._emit_annotations(self._block)]
        return events + self._end_message(
            {**message, "stop_reason": message.get("stop_reason") or _NO_STOP_REASON}, None
        )

    def _end_message(self, delta: Json, usage: Any) -> list[Event]:
        facts: Json = {}
        # A later reason that says that the answer was cut off is the one that counts.
        reason = delta.get("stop_reason")
        if reason is not None and (self._stop_reason is None or STOP_REASONS.get(str(reason)) in _CUT_REASONS):
            self._stop_reason = str(reason)
            details = _read_stop_details(delta.get("stop_details"))
            self._stop_explanation = ": ".join(filter(None, details.values())) or None
            if self._stop_explanation is not None:
                facts[STOP_DETAILS_FACT] = details
        if isinstance(sequence := delta.get("stop_sequence"), str):
            facts[STOP_SEQUENCE_FACT] = sequence
        return [*([Noted(facts=facts)] if facts else []), *self._update_usage(usage)]

    def _update_usage(self, reported: Any) -> list[Event]:
        if not isinstance(reported, dict):
            return []
        self.usage = read_message_usage(reported, self.usage)
        tier = reported.get("service_tier")
        facts = {"service_tier": _SERVICE_TIERS[tier]} if isinstance(tier, str) and tier in _SERVICE_TIERS else None
        return [Noted(usage=self.usage, facts=facts)]

    def _open_block(self, index: Any, block: Json) -> list[Event]:
        events = self._close_block("completed")
        self._block_index, self._block, self._deltas, self._is_stopped = index, dict(block), [], False
        self._signature = []
        match block["type"]:
            case "text":
                continues = self._open_message is not None and self._writer.current_block is self._open_message
                self._block["start"] = self._message_length if continues else 0
                self._block["citations"] = read_citations(block)
                return events + self._emit_delta("text", block.get("text") or "")
            case "thinking":
                return events + self._emit_delta(self._reasoning_kind, block.get("thinking") or "")
            case "redacted_thinking":
                return [
                    *events,
                    *self._writer.write_item({**new_reasoning(self._new_id("rs")), "details": [detail_of(block)]}),
                ]
            case "tool_use":
                return events + self._open_call(block)
            case "web_search_tool_result":
                return events + self._searches.end_search(block)
            case "server_tool_use" if block["name"] == WEB_SEARCH:
                return events
        return [*events, Opaque("anthropic", block, is_output=True)]

    def _decode_delta(self, index: Any, delta: Json) -> list[Event]:
        if index != self._block_index or self._is_stopped:
            if is_blank_delta(delta):
                return []
            raise ProtocolViolation(NOT_OPEN)
        kind = delta["type"]
        if kind == "input_json_delta" and self._block["type"] == "server_tool_use":
            self._deltas.append(delta["partial_json"])
        if self._block["type"] not in DELTA_BLOCKS:
            return []
        if kind not in BLOCK_OF_DELTA:
            return [Opaque("anthropic", delta, is_output=True)]
        if not is_own_delta(self._block["type"], delta):
            return []
        match kind:
            case "text_delta":
                return self._emit_delta("text", delta["text"])
            case "thinking_delta":
                return self._emit_delta(self._reasoning_kind, delta["thinking"])
            case "input_json_delta":
                if not self._block.get("input"):
                    return self._emit_delta("arguments", delta["partial_json"])
                self._repeated_input.append(delta["partial_json"])
            case "signature_delta":
                if not isinstance(delta["signature"], str):
                    raise TypeError("a signature is not a string")
                self._signature.append(delta["signature"])
            case _:
                self._block["citations"].append(delta["citation"])
        return []

    def _emit_delta(self, kind: str, text: str) -> list[Event]:
        if not isinstance(text, str):
            raise TypeError("a text is not a string")
        if not text:
            return []
        if kind == "text":
            events = self._writer.write_block(kind, text)
            if self._open_message is not self._writer.current_block:
                self._open_message, self._message_length = self._writer.current_block, 0
            self._message_length += len(text)
            return events
        self._deltas.append(text)
        if kind == "arguments":
            return self._writer.write_arguments(self._call_count, text)
        return self._writer.write_block(kind, text)

    def _open_call(self, block: Json) -> list[Event]:
        name, upstream_id = block["name"], block.get("id")
        if not isinstance(name, str) or not name:
            raise ProtocolViolation("the upstream sent a tool call without a name")
        self._call_count += 1
        events = self._writer.open_call(
            self._call_count, name=name, call_id=self._ids.claim(str(upstream_id) if upstream_id else None)
        )
        # A whole message has the input here. In a stream it is empty here and follows in deltas.
        return events + (self._emit_delta("arguments", render_arguments(block["input"])) if block.get("input") else [])

    def _check_repeated_input(self) -> None:
        """Raises ProtocolViolation if the deltas of a call are another input than the one that its block began with."""
        repeated, self._repeated_input = "".join(self._repeated_input), []
        if repeated.strip() and not is_same_json(repeated, render_arguments(self._block.get("input"))):
            raise ProtocolViolation("the upstream sent a tool call with two different inputs")

    def _emit_annotations(self, block: Json) -> list[Event]:
        """Returns the citations of a block as annotations. They are sent once its text is complete, which they cite."""
        citations, block["citations"] = block.get("citations") or (), []
        annotations = (annotation_of(citation, block["start"], self._message_length) for citation in citations)
        return [
            event for annotation in annotations if annotation is not None for event in self._writer.annotate(annotation)
        ]

    def _close_block(self, status: ItemStatus) -> list[Event]:
        """Ends the open block. The message of a text block stays open, because the next text block continues it."""
        self._check_repeated_input()
        block, self._block, self._block_index = self._block, {}, None
        match block.get("type"):
            case "text":
                return self._emit_annotations(block)
            case "thinking":
                return self._close_thinking(block, status)
            case "tool_use":
                empty = not self._deltas and status == "completed"
                # There were no deltas, so the block's `input` is the whole input. It may be any JSON.
                events = self._emit_delta("arguments", render_arguments(block.get("input", {}))) if empty else []
                return [*events, *self._writer.close_call(self._call_count, status)]
            case "server_tool_use" if block["name"] == WEB_SEARCH:
                return self._searches.begin_search(block, "".join(self._deltas))
        return []

    def _close_thinking(self, block: Json, status: ItemStatus) -> list[Event]:
        """Ends a reasoning item, with its block in `details`. A block without a signature was cut off, and has no
        details, because the upstream would refuse it in a later turn."""
        text, begun = "".join(self._deltas), block.get("signature")
        signature = "".join([begun if isinstance(begun, str) else "", *self._signature])
        details = [detail_of({**block, "thinking": text, "signature": signature})] if signature else []
        if not details:
            return self._writer.close_block(status) if text else []
        if not text:
            return self._writer.write_item({**new_reasoning(self._new_id("rs")), "details": details})
        final = {**(self._writer.current_block or {}), "details": details}
        if self._reasoning_kind == "summary":
            final["summary"] = [{**new_summary_text(), "text": text}]
        else:
            final["content"] = [{**new_reasoning_text(), "text": text}]
        return self._writer.close_block("completed", final)

    def _fail(self, failed: Failed) -> list[Event]:
        self.ended = True
        failed.usage = self.usage
        return [failed]


def _read_stop_details(details: Any) -> dict[str, str | None]:
    """Returns the texts of a message's `stop_details`, which say why the API refused; None for each that it lacks."""
    texts = {key: details.get(key) if isinstance(details, dict) else None for key in ("category", "explanation")}
    return {key: text[:_MAX_DETAIL_CHARS] if isinstance(text, str) and text else None for key, text in texts.items()}


def failure_in(error: Any) -> Failed:
    """Returns the failure that an `error` object reports: `{"type": "overloaded_error", "message": "Overloaded"}`."""
    reported = error if isinstance(error, dict) else {"message": error}
    kind, text = str(reported.get("type")), reported.get("message")
    message = text if isinstance(text, str) and text else _NO_MESSAGE
    if is_context_overflow(message, kind):
        return Failed("context_length_exceeded", message)
    code = _ERROR_CODES.get(kind, "upstream_error")
    # Such a message may quote the gateway's API key.
    return Failed(
        code,
        "the upstream refused the gateway's own credentials" if code == _ERROR_CODES["permission_error"] else message,
    )
