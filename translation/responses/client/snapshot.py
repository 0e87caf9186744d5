"""Collects events into a response object: the reply without `stream`, and the object in a stream's last event."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from translation.hosted.tool_report import TOOL_REPORT
from translation.parsers.text_calls import TOOL_WARNINGS
from translation.representation.collector import ItemState
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.item_seal import ItemSeal
from translation.representation.json_types import Item, Json
from translation.responses import usage as usage_object
from translation.responses.usage import build_tool_usage
from translation.tools.searches import count_queries

_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reason -> `incomplete_details.reason`. Every other reason is a completed response."""

_EFFECTIVE_PARAMS = ("temperature", "top_p")
"""Parameters whose numbers are taken from a Responses upstream. It reports those it used, also without any in the
request."""

_SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast", "ultrafast"})
"""The tiers the API knows. Chat upstreams have others (Groq's `on_demand`), which strict clients refuse."""

_ERROR_CODES = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "data_residency_mismatch",
        "bio_policy",
        "misalignment_policy_violation",
        "vector_store_timeout",
        "invalid_image",
        "invalid_image_format",
        "invalid_base64_image",
        "invalid_image_url",
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "image_content_policy_violation",
        "invalid_image_mode",
        "image_file_too_large",
        "unsupported_image_media_type",
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
    }
)
"""The values of `error.code` in the schema of the API. Strict clients reject the whole event for most others."""

_UNLISTED_ERROR_CODES = frozenset({"context_length_exceeded", "insufficient_quota"})
"""Codes that OpenAI sends although its schema lacks them. Codex does not repeat the request after them, and makes its
conversation shorter after the first."""

_ERROR_CODE_OF = {
    "rate_limited": "rate_limit_exceeded",
}
"""Code of a Failed event -> the `error.code` with its meaning. Any other code outside the list is `server_error`."""

_FAILING_ITEMS = frozenset({"web_search_call", "file_search_call", "image_generation_call"})
"""Types of items that have no status `incomplete`. If the turn breaks off, their status is `failed`."""


class Snapshot:
    """A response object that grows with each event.

    `initial_response` is the object from `new_response`. `clock` returns the time in epoch seconds. `seal` seals the
    items before they are sent. The batches must satisfy the event grammar. After Finished or Failed, `response` has its
    output, usage and final status. Each public method for one type of event applies it, and returns what its frame
    needs.
    """

    def __init__(self, initial_response: Json, clock: Callable[[], int], seal: ItemSeal | None = None) -> None:
        self.response: Json = dict(initial_response)
        self.failed: Failed | None = None
        """The failure that ended the turn, if there is one."""
        self.items: list[ItemState] = []
        self._clock = clock
        self.seal = seal
        self._usage: Usage | None = None

    def feed(self, batch: Sequence[Event]) -> None:
        """Applies one batch."""
        for event in batch:
            _EVENT_APPLIERS[type(event)](self, event)

    def result(self) -> Json:
        """Returns the response object. Collectors of all dialects have this method."""
        return self.response

    def apply(self, event: Event) -> None:
        """Applies one event of any type."""
        _EVENT_APPLIERS[type(event)](self, event)

    def start(self, event: Started) -> None:
        """Applies Started: merges the upstream's own snapshot, if there is one."""
        if event.response:
            self._merge_upstream(event.response)

    def start_item(self, event: ItemStarted) -> ItemState:
        """Adds an item. Returns its state."""
        state = ItemState(event.item if self.seal is None else self.seal.seal_added_item(event.item))
        self.items.append(state)
        return state

    def start_part(self, event: PartStarted) -> ItemState:
        """Adds a part. Returns the state of its item, whose last part it is."""
        state = self.items[event.index]
        state.start_part(event.part)
        return state

    def annotate(self, event: Annotated) -> int:
        """Adds a citation. Returns its index in the part."""
        annotations = self.items[event.index].parts[event.part_index].annotations
        annotations.append(event.annotation)
        return len(annotations) - 1

    def end_part(self, event: PartEnded) -> Json:
        """Ends a text. Returns the whole part; for the text of an item itself, the item in its current state."""
        return self.items[event.index].end_part(event.part_index, event.part)

    def _ignore(self, event: Progressed | Opaque) -> None:
        """Does nothing. These events change no item: where they matter, ItemEnded has the upstream's own item."""

    def _add_delta(self, event: Delta) -> None:
        self.items[event.index].add_delta(event)

    def _merge_upstream(self, upstream: Json) -> None:
        """Merges what only a Responses upstream knows: further keys, effective parameters, reasoning, service tier.

        All other keys, such as the id, the model and the echoed parameters, keep the gateway's values.
        """
        response = self.response
        for key in upstream.keys() - response.keys():
            response[key] = upstream[key]
        for key in _EFFECTIVE_PARAMS:
            if isinstance(used := upstream.get(key), int | float):
                response[key] = used
        if isinstance(reasoning := upstream.get("reasoning"), dict):
            response["reasoning"] = response["reasoning"] | {
                key: value for key, value in reasoning.items() if value is not None
            }
        self._set_service_tier(upstream.get("service_tier"))

    def note(self, event: Noted) -> None:
        """Applies token counts, the service tier and tool warnings. Later values replace earlier ones."""
        self._usage = event.usage or self._usage
        if event.facts:
            self._set_service_tier(event.facts.get("service_tier"))
            if warnings := event.facts.get(TOOL_WARNINGS):
                self.response[TOOL_WARNINGS] = warnings
            if (report := event.facts.get(TOOL_REPORT)) is not None:
                self.response[TOOL_REPORT] = report

    def _set_service_tier(self, tier: object) -> None:
        if isinstance(tier, str) and tier in _SERVICE_TIERS:
            self.response["service_tier"] = tier

    def end_item(self, event: ItemEnded) -> Item:
        """Ends an item. Returns it as the client gets it."""
        state = self.items[event.index]
        final = event.item
        # GitHub Copilot gives an item a new id in every event. Clients need one id per item.
        if final is not None and final.get("id") != state.start["id"]:
            final = {**final, "id": state.start["id"]}
        item = state.end(final, event.status)
        # Clients parse arguments as JSON. Some upstreams send empty ones for a function without parameters.
        if item["type"] == "function_call" and not item.get("arguments") and item.get("status") != "incomplete":
            item = state.end({**item, "arguments": "{}"}, event.status)
        if self.seal is not None and (sealed := self.seal.seal_done_item(item)) is not item:
            item = state.end(sealed, event.status)
        return item

    def finish(self, event: Finished) -> None:
        """Ends the response as `completed`, or as `incomplete` if it was cut off."""
        reported_usage: Json | None = None
        reason = _INCOMPLETE_REASONS.get(event.reason)
        incomplete, details = reason is not None, None
        if upstream := event.response:
            self._merge_upstream(upstream)
            incomplete = incomplete or upstream.get("status") == "incomplete"
            details, reported_usage = upstream.get("incomplete_details"), upstream.get("usage")
        self._usage = event.usage or self._usage
        if reason is not None and not (event.is_unknown and details):
            is_same = isinstance(details, dict) and details.get("reason") == reason
            details = details if is_same else {"reason": reason}
        self.response |= {
            "status": "incomplete" if incomplete else "completed",
            "completed_at": None if incomplete else self._clock(),
            "incomplete_details": details if incomplete else None,
            "output": [state.snapshot() for state in self.items],
            "usage": usage_object.write_usage(self._usage, reported_usage),
        }
        if searches := sum([count_queries(item) for item in self.response["output"]]):
            self.response.setdefault("tool_usage", build_tool_usage(searches))
        if event.has_remarks():
            self.response |= event.remarks

    def fail(self, event: Failed) -> None:
        """Ends the response as `failed`, with the error and the output so far."""
        self.failed = event
        self._usage = event.usage or self._usage
        is_known = event.code in _ERROR_CODES or event.code in _UNLISTED_ERROR_CODES
        code = event.code if is_known else _ERROR_CODE_OF.get(event.code, "server_error")
        error: Json = {"code": code, "message": event.message}
        if code != event.code:
            error["type"] = event.code
        if event.param is not None:
            error["param"] = event.param
        self.response |= {
            "status": "failed",
            "completed_at": None,
            "incomplete_details": None,
            "error": error,
            "output": [_incomplete_item(state) for state in self.items],
            "usage": usage_object.write_usage(self._usage),
        }


def _incomplete_item(state: ItemState) -> Json:
    item = state.mark_incomplete()
    if item.get("status") == "incomplete" and item["type"] in _FAILING_ITEMS:
        return {**item, "status": "failed"}
    return item


_EVENT_APPLIERS: Final[dict[type[Event], Callable[[Snapshot, Any], object]]] = {
    Started: Snapshot.start,
    ItemStarted: Snapshot.start_item,
    PartStarted: Snapshot.start_part,
    Delta: Snapshot._add_delta,
    Annotated: Snapshot.annotate,
    PartEnded: Snapshot.end_part,
    ItemEnded: Snapshot.end_item,
    Progressed: Snapshot._ignore,
    Opaque: Snapshot._ignore,
    Noted: Snapshot.note,
    Finished: Snapshot.finish,
    Failed: Snapshot.fail,
}
"""Type of event -> the method that applies it. A lookup is faster than `match`, which tests class after class."""
