"""Validates the order of the events in a stream of the Responses API."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.doctor.checks.verdicts import CheckFailed, require
from translation.representation.items import TEXT_FIELDS
from translation.representation.json_types import Json

_START_EVENTS: Final = ("response.created", "response.queued", "response.in_progress")
_TERMINAL_EVENTS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_PART_EVENTS: Final = {
    "response.content_part": ("content", "content_index"),
    "response.reasoning_summary_part": ("summary", "summary_index"),
}
_TEXT_KEYS: Final = {channel.event_prefix: channel.key for channel in TEXT_FIELDS.values()}
"""Event prefix -> the key of the whole text, which its deltas add up to."""
_CLIENT_TOOL_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
"""Items whose text must be streamed. The text of calls that an upstream runs itself need not be streamed."""
_STABLE_KEYS: Final = ("id", "type", "call_id", "name")


def check_order(events: Sequence[Json], *, done: bool) -> None:
    """Raises CheckFailed for the first event that is out of order or malformed.

    `done`: the stream ended with the frame `[DONE]`.
    """
    if not events:
        raise CheckFailed("the stream has no events")
    order = _OrderChecker()
    for position, event in enumerate(events):
        if event.get("sequence_number") != position:
            raise CheckFailed(f"event {position} has the sequence number {event.get('sequence_number')}")
        try:
            order.check_event(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise CheckFailed(f"event {position}, {event.get('type')}, is malformed: {error!r}") from error
    if not order.ended:
        raise CheckFailed("the stream ends without a terminal event")
    if not done:
        raise CheckFailed("the stream ends without [DONE]")


@dataclass(slots=True)
class _TextState:
    text: str = ""
    is_done: bool = False


@dataclass(slots=True)
class _OpenItem:
    """An item whose `output_item.added` was received."""

    added: Json
    texts: dict[tuple[str, int | None], _TextState] = field(default_factory=dict)
    parts: dict[str, list[Json | None]] = field(default_factory=lambda: {"content": [], "summary": []})
    """The finished parts by type. A part that is not finished is None."""
    final: Json | None = None


class _OrderChecker:
    def __init__(self) -> None:
        self.ended = False
        self._seen_types: set[str] = set()
        self._response_id: Any = None
        self._items: list[_OpenItem] = []

    def check_event(self, event: Json) -> None:
        kind: str = event["type"]
        require(not self.ended, f"{kind} after the end")
        prefix, _, verb = kind.rpartition(".")
        if kind in _START_EVENTS:
            self._check_start(kind, event["response"])
        else:
            require("response.in_progress" in self._seen_types, f"{kind} before response.in_progress")
            if kind in _TERMINAL_EVENTS:
                self._check_end(kind, event["response"])
            elif kind == "response.output_item.added":
                self._add_item(event["output_index"], event["item"])
            elif kind == "response.output_item.done":
                self._finish_item(self._require_item(event), event["item"])
            elif prefix in _PART_EVENTS:
                self._check_part(prefix, verb, event)
            elif prefix in _TEXT_KEYS and verb in ("delta", "done"):
                self._check_text(prefix, verb, event)
        self._seen_types.add(kind)

    def _check_start(self, kind: str, response: Json) -> None:
        require(kind not in self._seen_types, f"{kind} twice")
        require((kind == "response.created") == (not self._seen_types), "response.created is not first")
        require(not self._items, f"{kind} after an item")
        self._response_id = self._response_id or response["id"]
        require(response["id"] == self._response_id, "the response's id changed")

    def _add_item(self, index: int, item: Json) -> None:
        require(index == len(self._items), f"item {index} starts, but {len(self._items)} is next")
        require(bool(item["type"]) and bool(item["id"]), f"item {index} has no type or no id")
        require(all(item["id"] != other.added["id"] for other in self._items), "two items have the same id")
        self._items.append(_OpenItem(item))

    def _require_item(self, event: Json) -> _OpenItem:
        index = event["output_index"]
        require(0 <= index < len(self._items), f"{event['type']} for item {index}, which never started")
        item = self._items[index]
        require(item.final is None, f"{event['type']} for an item that has ended")
        require(event.get("item_id", item.added["id"]) == item.added["id"], "an item's id changed")
        return item

    def _check_part(self, prefix: str, verb: str, event: Json) -> None:
        where, index_key = _PART_EVENTS[prefix]
        item, index = self._require_item(event), event[index_key]
        parts = item.parts[where]
        if verb == "added":
            require(index == len(parts), f"part {index} starts, but {len(parts)} is next")
            parts.append(None)
            return
        require(index < len(parts) and parts[index] is None, f"part {index} ends, but is not open")
        parts[index] = event["part"]
        channel = TEXT_FIELDS.get((item.added["type"], event["part"]["type"]))
        if channel is not None:
            text = item.texts.get((channel.event_prefix, index), _TextState())
            require(text.is_done, "a part ends before its text")
            require(event["part"][channel.key] == text.text, "a part is not the sum of its deltas")

    def _check_text(self, prefix: str, verb: str, event: Json) -> None:
        item = self._require_item(event)
        index = event.get("content_index", event.get("summary_index"))
        if index is not None:
            parts = item.parts["content" if "content_index" in event else "summary"]
            require(index < len(parts) and parts[index] is None, f"{event['type']} for a part that is not open")
        text = item.texts.setdefault((prefix, index), _TextState())
        require(not text.is_done, f"{event['type']} after its end")
        if verb == "delta":
            text.text += event["delta"]
        else:
            require(event[_TEXT_KEYS[prefix]] == text.text, f"{event['type']} is not the sum of its deltas")
            text.is_done = True

    def _finish_item(self, item: _OpenItem, final: Json) -> None:
        for key in _STABLE_KEYS:
            require(final.get(key) == item.added.get(key), f"an item's {key} changed")
        for where, parts in item.parts.items():
            require(None not in parts, "an item ends before its parts")
            require(not parts or final[where] == parts, "an item does not have the parts that were sent")
        channel = TEXT_FIELDS.get((final["type"], None))
        text = item.texts.get((channel.event_prefix, None)) if channel else None
        if channel is not None and text is None:
            require(final["type"] not in _CLIENT_TOOL_CALLS, f"a {final['type']} has no {channel.key}")
        elif channel is not None and text is not None:
            require(text.is_done, f"a {final['type']} ends before its {channel.key}")
            require(final[channel.key] == text.text, f"a {final['type']} is not the sum of its deltas")
        item.final = final

    def _check_end(self, kind: str, response: Json) -> None:
        require(response["id"] == self._response_id, "the response's id changed")
        require(kind == f"response.{response['status']}", f"{kind} has a response that is {response['status']}")
        self.ended = True
        if kind == "response.failed":
            return
        require(all(item.final is not None for item in self._items), "the response ends before its items")
        require(response["output"] == [item.final for item in self._items], "the response is not the sum of its items")
