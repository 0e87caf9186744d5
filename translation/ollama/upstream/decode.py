"""Decodes replies of Ollama's chat API to events: the chunks of a stream, or one whole reply, which is one chunk."""

import re
from types import NoneType
from typing import Any, Final

from translation.decoding.chunk_decoder import ChunkDecoder
from translation.decoding.context_overflow import is_context_overflow
from translation.decoding.unshown_output import find_unknown_media
from translation.decoding.usage import read_count, read_token_logprobs
from translation.errors import ProtocolViolation
from translation.parsers.edges import EdgeTrimmer
from translation.parsers.tagged_text import TaggedTextReader
from translation.representation.events import Event, Failed, FinishReason, Opaque, Started, Usage
from translation.representation.item_writer import ItemWriter
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.tools.arguments import render_arguments
from translation.tools.call_ids import CallIdAllocator

FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}
"""`done_reason` -> the reason of a Finished event. A value that is not listed (`load`, `unload`) is `other`. Old
servers send none, which means `stop`."""

_USAGE_KEYS: Final = (
    "prompt_eval_count",
    "eval_count",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)

_UNAUTHORIZED: Final = re.compile(r"\bunauthorized\b|\bsign ?in\b", re.IGNORECASE)

_ERROR_CODES: Final = (
    (re.compile(r"server busy|maximum pending requests|overloaded", re.IGNORECASE), "upstream_overloaded"),
    (re.compile(r"too many requests|rate limit|usage limit", re.IGNORECASE), "rate_limited"),
    (re.compile(r"timed out|timeout", re.IGNORECASE), "upstream_timeout"),
)
"""(pattern in the error's text, the gateway's code). Any other error is an `upstream_error`."""


_MESSAGE_TYPES: Final = {"thinking": (str, NoneType), "content": (str, NoneType), "tool_calls": (list, NoneType)}

_READ_MESSAGE_KEYS: Final = frozenset({"images"})
"""The keys of media in a message that are decoded."""


class OllamaDecoder(ChunkDecoder):
    """Decodes one reply. The caller feeds every chunk, then calls `finish`. No I/O, no clock, no ids of its own.

    Chunks after the end are ignored. Raises ProtocolViolation for input that is not a chat reply. A reply that broke
    off ends with Failed.
    """

    def __init__(self, new_id: NewId, profile: Profile = DEFAULT_PROFILE) -> None:
        self.usage: Usage | None = None
        """The token counts. The last chunk reports them."""
        self._reasoning_kind = "summary" if profile.reasoning_part == "summary_text" else "reasoning"
        self._new_id = new_id
        self._writer = ItemWriter(new_id)
        self._ids = CallIdAllocator()
        self._edges = EdgeTrimmer()
        self._reads_tags = profile.parsing_format != "direct_response"
        self._tagged_text = TaggedTextReader(profile)
        self._call_count = 0
        self._started = False

    def feed(self, chunk: Json) -> list[Event]:
        if self.ended:
            return []
        if not isinstance(chunk, dict):
            raise ProtocolViolation("the upstream sent something that is not a JSON object")
        if error := chunk.get("error"):
            return self._fail(failure_in(error))
        message = chunk.get("message")
        if not isinstance(message, dict) and (not chunk.get("done") or message or chunk.get("response")):
            raise ProtocolViolation("the upstream sent a JSON object that is not a chunk of a chat")
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(Started(model=str(chunk.get("model") or "")))
        if isinstance(message, dict):
            self._writer.add_logprobs(read_token_logprobs(chunk.get("logprobs")))
            events += self._read_message(message)
        if chunk.get("done") and not self.ended:
            events += self._end_reply(chunk)
        return events

    def finish(self) -> list[Event]:
        """Ends the reply at the end of the stream. Without a chunk with `done` it ends with Failed."""
        if self.ended:
            return []
        return self._fail(Failed("upstream_truncated", "the upstream's reply broke off before it was finished"))

    def _read_message(self, message: Json) -> list[Event]:
        events: list[Event] = []
        _require_types(message)
        if thinking := message.get("thinking"):
            events += self._emit_segments(self._tagged_text.expect_no_reasoning())
            events += self._emit_delta("reasoning", thinking)
        if content := message.get("content"):
            events += self._read_text(content)
        for image in images if isinstance(images := message.get("images"), list) else ():
            events += self._read_image(image)
        events += find_unknown_media(message, _READ_MESSAGE_KEYS, "ollama")
        for call in message.get("tool_calls") or ():
            events += self._emit_segments(self._tagged_text.interrupt())
            events += self._read_call(call)
            if self.ended:
                break
        return events

    def _read_image(self, image: Any) -> list[Event]:
        """Decodes an image of the model, in base64, to the item that the Responses API has for it."""
        if not isinstance(image, str) or not image:
            return [Opaque("ollama", {"type": "image"}, is_output=True)]
        events = self._emit_segments(self._tagged_text.interrupt())
        self._edges.end_reasoning()
        item = {"id": self._new_id("ig"), "type": "image_generation_call", "status": "completed", "result": image}
        return [*events, *self._writer.write_item(item)]

    def _read_text(self, text: str) -> list[Event]:
        if not self._reads_tags:
            return self._emit_delta("text", text)
        return self._emit_segments(self._tagged_text.feed(text))

    def _emit_segments(self, segments: list[tuple[str, str]]) -> list[Event]:
        return [event for segment in segments for event in self._emit_delta(*segment)]

    def _emit_delta(self, kind: str, text: str) -> list[Event]:
        text = self._edges.feed(kind, text)
        if not text:
            return []
        if kind == "reasoning":
            return self._writer.write_block(self._reasoning_kind, text)
        return self._writer.write_block(kind, text)

    def _read_call(self, call: Any) -> list[Event]:
        """Decodes a call. Ollama sends each call in one piece, and most without an id."""
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(name := function.get("name"), str) or not name:
            return self._fail(Failed("upstream_garbled", "the upstream sent a tool call without a name"))
        self._edges.end_reasoning()
        self._call_count += 1
        upstream_id = call.get("id")
        call_id = self._ids.claim(upstream_id if isinstance(upstream_id, str) else None)
        value = function.get("arguments")
        # Older servers send null for no arguments.
        arguments = "{}" if value is None else render_arguments(value)
        events = self._writer.open_call(self._call_count, name=name, call_id=call_id, arguments=arguments)
        return [*events, *self._writer.close_call(self._call_count)]

    def _end_reply(self, chunk: Json) -> list[Event]:
        events: list[Event] = []
        events += self._emit_segments(self._tagged_text.interrupt())
        self.ended = True
        self.usage = _read_usage(chunk)
        done_reason = chunk.get("done_reason")
        raw_reason = done_reason if isinstance(done_reason, str) and done_reason else None
        reason = "stop" if raw_reason is None else FINISH_REASONS.get(raw_reason, "other")
        events += self._writer.close("incomplete" if reason == "length" else "completed")
        if reason == "stop" and self._call_count:
            reason = "tool_calls"
        return [*events, self._writer.terminal_event(reason, raw_reason, self.usage)]

    def _fail(self, failed: Failed) -> list[Event]:
        self.ended = True
        return [failed]


def _require_types(message: Json) -> None:
    """Raises ProtocolViolation for a text or calls of another type, which would be lost."""
    for key, kind in _MESSAGE_TYPES.items():
        if not isinstance(message.get(key), kind):
            raise ProtocolViolation(f"the upstream sent a message whose `{key}` has another type")


def _read_usage(chunk: Json) -> Usage | None:
    """Returns the token counts. Ollama reports neither cached tokens nor tokens of reasoning."""
    counts = {"input": read_count(chunk.get("prompt_eval_count")), "output": read_count(chunk.get("eval_count"))}
    if all(count is None for count in counts.values()):
        return None
    return Usage(**counts, raw={key: chunk[key] for key in _USAGE_KEYS if key in chunk})


def failure_in(error: Any) -> Failed:
    """Returns the failure that the `error` of a chunk or of a whole reply reports."""
    text = error.get("message") if isinstance(error, dict) else error
    message = text if isinstance(text, str) and text else "the upstream reported an error without saying which"
    if is_context_overflow(message):
        return Failed("context_length_exceeded", message)
    if _UNAUTHORIZED.search(message):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials")
    return Failed(next((code for pattern, code in _ERROR_CODES if pattern.search(message)), "upstream_error"), message)
