"""Adds events up to a response object: the reply without streaming, and what a stream's last event holds."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

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
from translation.representation.json_types import Item, Json
from translation.responses import usage as usage_object


class ItemSeal(Protocol):
    """Items as a client is told them: what only their upstream can use is sealed. Gives the item itself where there is
    nothing to seal in it."""

    def may_need_seal(self, payload: bytes, /) -> bool:
        """Whether an event of a Responses upstream may hold an item with something to seal."""
        ...

    def seal_added_item(self, item: Item, /) -> Item:
        """An item that is announced."""
        ...

    def seal_done_item(self, item: Item, /) -> Item:
        """An item that is complete."""
        ...


_INCOMPLETE_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reason -> `incomplete_details.reason`. Every other reason is a completed response."""

_EFFECTIVE_PARAMS = ("temperature", "top_p")
"""Numbers where a Responses upstream reads back what it used, which the client may not have chosen."""

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
"""`error.code` is a closed list to the official clients, which refuse the whole event over any other."""

_ERROR_CODE_OF = {
    "rate_limited": "rate_limit_exceeded",
    "insufficient_quota": "rate_limit_exceeded",
    "context_length_exceeded": "invalid_prompt",
}
"""Codes outside that list and the listed one they mean; all others are `server_error`."""

_FAILING_ITEMS = frozenset({"web_search_call", "file_search_call", "image_generation_call"})
"""Items that know no status `incomplete`: broken off, they have failed."""


class Snapshot:
    """A response as it grows. `head` is the object from `new_response`; `clock` gives epoch seconds.

    Feed it batches that satisfy the event grammar. `response` has its output, usage and final status after Finished
    or Failed. `seal`: what seals items on their way out. The methods for one type of event are `apply` for it, and give
    what there is to tell of it.
    """

    def __init__(self, initial_response: Json, clock: Callable[[], int], seal: ItemSeal | None = None) -> None:
        self.response: Json = dict(initial_response)
        self.failed: Failed | None = None
        self.items: list[ItemState] = []
        self._clock = clock
        self._seal = seal
        self._usage: Usage | None = None

    def feed(self, batch: Sequence[Event]) -> None:
        """Take one batch."""
        for event in batch:
            _EVENT_APPLIERS[type(event)](self, event)

    def result(self) -> Json:
        """The response object, for whoever collects replies of any dialect."""
        return self.response

    def apply(self, event: Event) -> None:
        """Take one event, by the method for its type."""
        _EVENT_APPLIERS[type(event)](self, event)

    def start(self, event: Started) -> None:
        """The upstream has accepted the turn."""
        if event.response:
            self._merge_upstream(event.response)

    def start_item(self, event: ItemStarted) -> ItemState:
        """Gives the new item."""
        state = ItemState(event.item if self._seal is None else self._seal.seal_added_item(event.item))
        self.items.append(state)
        return state

    def start_part(self, event: PartStarted) -> ItemState:
        """Gives the item that has the new part, as its last."""
        state = self.items[event.index]
        state.start_part(event.part)
        return state

    def annotate(self, event: Annotated) -> int:
        """Gives the number of the citation within its part."""
        annotations = self.items[event.index].parts[event.part_index].annotations
        annotations.append(event.annotation)
        return len(annotations) - 1

    def end_part(self, event: PartEnded) -> Json:
        """Gives the part, or the item whose own text has ended, as it is then."""
        return self.items[event.index].end_part(event.part_index, event.part)

    def _ignore(self, event: Progressed | Opaque) -> None:
        """They leave nothing in an item: where they matter, ItemEnded carries the upstream's own."""

    def _add_delta(self, event: Delta) -> None:
        self.items[event.index].add_delta(event)

    def _merge_upstream(self, upstream: Json) -> None:
        """Keep what only a Responses upstream can know; what the client asked for and who answered stay ours."""
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
        """The latest counts and facts are the response's."""
        self._usage = event.usage or self._usage
        if event.facts:
            self._set_service_tier(event.facts.get("service_tier"))
            if warnings := event.facts.get(TOOL_WARNINGS):
                self.response[TOOL_WARNINGS] = warnings

    def _set_service_tier(self, tier: object) -> None:
        if isinstance(tier, str) and tier in _SERVICE_TIERS:
            self.response["service_tier"] = tier

    def end_item(self, event: ItemEnded) -> Item:
        """Gives the item as it is told."""
        state = self.items[event.index]
        final = event.item
        # GitHub Copilot gives an item a new id in every event; clients want one.
        if final is not None and final.get("id") != state.start["id"]:
            final = {**final, "id": state.start["id"]}
        item = state.end(final, event.status)
        # Clients parse arguments as JSON; some upstreams say nothing for a function without parameters.
        if item["type"] == "function_call" and not item.get("arguments") and item.get("status") != "incomplete":
            item = state.end({**item, "arguments": "{}"}, event.status)
        if self._seal is not None and (sealed := self._seal.seal_done_item(item)) is not item:
            item = state.end(sealed, event.status)
        return item

    def finish(self, event: Finished) -> None:
        """The response has ended well."""
        upstream = event.response or {}
        if upstream:
            self._merge_upstream(upstream)
        self._usage = event.usage or self._usage
        incomplete = event.reason in _INCOMPLETE_REASONS or upstream.get("status") == "incomplete"
        details = upstream.get("incomplete_details")
        if event.reason in _INCOMPLETE_REASONS:
            details = {"reason": _INCOMPLETE_REASONS[event.reason]}
        self.response |= {
            "status": "incomplete" if incomplete else "completed",
            "completed_at": None if incomplete else self._clock(),
            "incomplete_details": details if incomplete else None,
            "output": [state.snapshot() for state in self.items],
            "usage": usage_object.write_usage(self._usage, upstream.get("usage")),
        }

    def fail(self, event: Failed) -> None:
        """The response has ended badly, with what there is of it."""
        self.failed = event
        self._usage = event.usage or self._usage
        code = event.code if event.code in _ERROR_CODES else _ERROR_CODE_OF.get(event.code, "server_error")
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
"""What takes each event: found at once, where `match` asks for class after class."""
