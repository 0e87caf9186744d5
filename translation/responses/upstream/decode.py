"""Decodes a Responses upstream's stream, or its whole response object, to events.

Does not know frames: it gets parsed event objects.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import orjson

from translation.errors import ProtocolViolation
from translation.framing.sse import require_event_name
from translation.representation.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    ItemStatus,
    Opaque,
    Progressed,
    Started,
    Usage,
)
from translation.representation.items import NewId
from translation.representation.json_types import Json
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.responses import usage
from translation.responses.summaries import ReasoningSummaries
from translation.responses.upstream.output import TEXT_PLACES, OutputReader, TextPlace
from translation.responses.upstream.response_failures import failure_in, has_error, is_cut_off

_DELTA_PLACES: dict[str, TextPlace] = {f"{name}.delta": place for name, place in TEXT_PLACES.items()}
_DONE_PLACES: dict[str, TextPlace] = {f"{name}.done": place for name, place in TEXT_PLACES.items()}

_FINISH_REASONS: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""`incomplete_details.reason` -> finish reason."""


def read_incomplete_reason(reason: Any) -> FinishReason:
    """Returns the reason of a Finished event for that of `incomplete_details`. Whatever cut a response off, it is not
    complete."""
    return _FINISH_REASONS.get(str(reason), "length")


_ADDRESS_KEYS = frozenset({"type", "sequence_number", "item_id", "output_index"})
"""Keys that identify an event. They are not part of its content."""


class ResponsesDecoder:
    """Decodes one reply. The caller feeds event objects, or one response object, and then calls `finish`.

    Raises ProtocolViolation only for an object that is neither. `usage` is set by the terminal event. Of the profile
    only `reasoning_part` is used, because a Responses upstream parses its model's text itself.
    """

    delta_run: Final = None
    """No fast path: every event has a sequence number of its own, so each has to be parsed."""

    def __init__(self, new_id: NewId, profile: Profile = DEFAULT_PROFILE) -> None:
        self.usage: Usage | None = None
        self._summaries = ReasoningSummaries() if profile.reasoning_part == "summary_text" else None
        self._output = OutputReader(new_id)
        self._started = False
        self._ended = False
        self._lifecycle_handlers: dict[str, Callable[[Json], list[Event]]] = {
            "response.created": self._start,
            "response.queued": self._start,
            "response.in_progress": self._start,
            "response.completed": self._decode_terminal,
            "response.incomplete": self._decode_terminal,
            "response.failed": self._decode_terminal,
            "response.cancelled": self._decode_terminal,
            "error": self._decode_error,
        }
        output = self._output
        self._structure_handlers: dict[str, Callable[[Json], list[Event]]] = {
            "response.output_item.added": output.start_item,
            "response.output_item.done": output.end_item,
            "response.content_part.added": partial(output.start_part, "content"),
            "response.content_part.done": partial(output.end_part, "content"),
            # Some versions of vLLM use these types for the parts of a reasoning item.
            "response.reasoning_part.added": partial(output.start_part, "content"),
            "response.reasoning_part.done": partial(output.end_part, "content"),
            "response.reasoning_summary_part.added": partial(output.start_part, "summary"),
            "response.reasoning_summary_part.done": partial(output.end_part, "summary"),
            "response.output_text.annotation.added": output.annotate,
        }

    def decode_payloads(self, payloads: Sequence[bytes], batch: list[Event] | None = None) -> list[Event]:
        """Feeds event objects given as JSON bytes. Appends to `batch`, if given, so that the events before an error
        are not lost. Raises what `feed` raises, and orjson.JSONDecodeError."""
        events = [] if batch is None else batch
        for payload in payloads:
            events += self.feed(orjson.loads(payload))
        return events

    def feed(self, chunk: Json) -> list[Event]:
        """Takes one event object, or a whole response, and returns its events, possibly none.

        Raises ProtocolViolation for an object that is neither.
        """
        if self._ended:
            return []
        try:
            if self._summaries is not None:
                chunk = self._summaries.rewrite_event(chunk)
            kind = chunk.get("type")
            place = _DELTA_PLACES.get(kind)  # type: ignore[arg-type]  # a type that is not a string is in no table
            if place is not None and self._started:
                return self._output.read_delta(place, chunk)
            return self._decode_response(chunk) if kind is None else self._decode_event(require_event_name(kind), chunk)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ProtocolViolation("the upstream sent an event that the Responses API does not know") from error

    def finish(self) -> list[Event]:
        """Ends the input. Returns Failed if there was no terminal event, because the reply is not complete."""
        if self._ended:
            return []
        return self._fail(
            Failed("upstream_truncated", "the upstream closed its stream before the response was complete")
        )

    def _decode_event(self, kind: str, chunk: Json) -> list[Event]:
        if kind in self._lifecycle_handlers:
            return self._lifecycle_handlers[kind](chunk)
        return (
            self._decode_output_event(kind, chunk)
            if self._started
            else [*self._ensure_started({}), *self._decode_output_event(kind, chunk)]
        )

    def _decode_output_event(self, kind: str, chunk: Json) -> list[Event]:
        if kind in self._structure_handlers:
            return self._structure_handlers[kind](chunk)
        if kind in _DELTA_PLACES:
            return self._output.read_delta(_DELTA_PLACES[kind], chunk)
        if kind in _DONE_PLACES:
            return self._output.end_text(_DONE_PLACES[kind], chunk)
        item = self._output.find_item(chunk)
        if item is None:
            return [Opaque("responses", chunk)]
        event_prefix, _, phase = kind.rpartition(".")
        if item.is_open and event_prefix == f"response.{item.type}":
            extra = {key: value for key, value in chunk.items() if key not in _ADDRESS_KEYS}
            return [Progressed(item.index, phase, extra or None)]
        return [Opaque("responses", chunk, item.index)]

    def _decode_response(self, response: Json) -> list[Event]:
        if "output" in response or response.get("object") == "response":
            status = response.get("status")
            if status in ("queued", "in_progress"):
                return self._fail(
                    Failed("upstream_truncated", f"the upstream's reply is a response with the status {status}")
                )
            return self._decode_terminal({"type": f"response.{status}", "response": response})
        if response.get("error"):
            return self._decode_error(response)
        raise ProtocolViolation("the upstream's reply is not a Responses API response")

    def _start(self, chunk: Json) -> list[Event]:
        return self._ensure_started(chunk.get("response") or {})

    def _ensure_started(self, response: Json) -> list[Event]:
        if self._started:
            return []
        self._started = True
        return [Started(response.get("model") or "", response.get("id"), response or None)]

    def _decode_terminal(self, chunk: Json) -> list[Event]:
        response = chunk.get("response") or {}
        # vLLM 0.32 sends `response.completed` for a response whose status is incomplete.
        statuses = {chunk["type"].removeprefix("response."), response.get("status")}
        if has_error(response):
            statuses.add("failed")
        if is_cut_off(response):
            statuses.add("incomplete")
        if not statuses.isdisjoint(("failed", "cancelled")):
            error = response.get("error") or (
                "the upstream cancelled the response" if "cancelled" in statuses else None
            )
            return self._fail(failure_in(error, response))
        events = self._ensure_started({key: response[key] for key in ("id", "model") if key in response})
        reason: FinishReason = "stop"
        raw_reason = "completed"
        status: ItemStatus = "completed"
        is_unknown = False
        if "incomplete" in statuses:
            status = "incomplete"
            raw_reason = str((response.get("incomplete_details") or {}).get("reason") or "incomplete")
            is_unknown = raw_reason not in _FINISH_REASONS
            reason = read_incomplete_reason(raw_reason)
        events += self._output.finish(response.get("output") or (), status)
        if reason == "stop" and self._output.has_calls:
            reason = "tool_calls"
        self._ended = True
        self.usage = usage.read_usage(response.get("usage"))
        return [*events, Finished(reason, raw_reason, self.usage, response or None, is_unknown)]

    def _decode_error(self, chunk: Json) -> list[Event]:
        # OpenAI's servers send the error under `error`. Its documentation puts the fields on the event itself.
        return self._fail(failure_in(chunk.get("error") or chunk))

    def _fail(self, failed: Failed) -> list[Event]:
        self._ended = True
        self.usage = failed.usage
        return [failed]
