"""Holds a stream of the Responses API to the order its events must come in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.doctor.checks.verdicts import Wrong, hold
from translation.representation.json_types import Json
from translation.representation.text_fields import CHANNELS

_BEGINNINGS: Final = ("response.created", "response.queued", "response.in_progress")
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_PARTS: Final = {
    "response.content_part": ("content", "content_index"),
    "response.reasoning_summary_part": ("summary", "summary_index"),
}
_KEYS: Final = {channel.name: channel.key for channel in CHANNELS.values()}
"""Event prefix -> the key that its deltas add up to."""
_RUN_BY_CLIENTS: Final = frozenset({"function_call", "custom_tool_call"})
"""Items whose text must come; what an upstream runs itself it need not show."""
_SHARED: Final = ("id", "type", "call_id", "name")


def check_order(events: Sequence[Json], *, done: bool) -> None:
    """Raises Wrong at the first event that has no right to be where it is. `done`: the frame `[DONE]` ended it."""
    if not events:
        raise Wrong("the stream has no events")
    order = _Order()
    for position, event in enumerate(events):
        if event.get("sequence_number") != position:
            raise Wrong(f"event {position} has the sequence number {event.get('sequence_number')}")
        try:
            order.take(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise Wrong(f"event {position}, {event.get('type')}, is malformed: {error!r}") from error
    if not order.ended:
        raise Wrong("the stream ends without a terminal event")
    if not done:
        raise Wrong("the stream ends without [DONE]")


@dataclass(slots=True)
class _Text:
    text: str = ""
    whole: bool = False


@dataclass(slots=True)
class _Open:
    """An item that has begun."""

    added: Json
    texts: dict[tuple[str, int | None], _Text] = field(default_factory=dict)
    parts: dict[str, list[Json | None]] = field(default_factory=lambda: {"content": [], "summary": []})
    """Each finished part; None while it is not."""
    final: Json | None = None


class _Order:
    def __init__(self) -> None:
        self.ended = False
        self._seen: set[str] = set()
        self._id: Any = None
        self._items: list[_Open] = []

    def take(self, event: Json) -> None:
        kind: str = event["type"]
        hold(not self.ended, f"{kind} after the end")
        prefix, _, verb = kind.rpartition(".")
        if kind in _BEGINNINGS:
            self._begin(kind, event["response"])
        else:
            hold("response.in_progress" in self._seen, f"{kind} before response.in_progress")
            if kind in _ENDS:
                self._end(kind, event["response"])
            elif kind == "response.output_item.added":
                self._add(event["output_index"], event["item"])
            elif kind == "response.output_item.done":
                self._finish(self._item(event), event["item"])
            elif prefix in _PARTS:
                self._part(prefix, verb, event)
            elif prefix in _KEYS and verb in ("delta", "done"):
                self._text(prefix, verb, event)
        self._seen.add(kind)

    def _begin(self, kind: str, response: Json) -> None:
        hold(kind not in self._seen, f"{kind} twice")
        hold((kind == "response.created") == (not self._seen), "response.created is not first")
        hold(not self._items, f"{kind} after an item")
        self._id = self._id or response["id"]
        hold(response["id"] == self._id, "the response's id changed")

    def _add(self, index: int, item: Json) -> None:
        hold(index == len(self._items), f"item {index} begins where {len(self._items)} is next")
        hold(bool(item["type"]) and bool(item["id"]), f"item {index} has no type or no id")
        hold(all(item["id"] != other.added["id"] for other in self._items), "two items have one id")
        self._items.append(_Open(item))

    def _item(self, event: Json) -> _Open:
        index = event["output_index"]
        hold(0 <= index < len(self._items), f"{event['type']} for item {index}, which never began")
        item = self._items[index]
        hold(item.final is None, f"{event['type']} for an item that has ended")
        hold(event.get("item_id", item.added["id"]) == item.added["id"], "an item's id changed")
        return item

    def _part(self, prefix: str, verb: str, event: Json) -> None:
        where, index_key = _PARTS[prefix]
        item, index = self._item(event), event[index_key]
        parts = item.parts[where]
        if verb == "added":
            hold(index == len(parts), f"part {index} begins where {len(parts)} is next")
            parts.append(None)
            return
        hold(index < len(parts) and parts[index] is None, f"part {index} ends and is not open")
        parts[index] = event["part"]
        channel = CHANNELS.get((item.added["type"], event["part"]["type"]))
        if channel is not None:
            text = item.texts.get((channel.name, index), _Text())
            hold(text.whole, "a part ends before its text")
            hold(event["part"][channel.key] == text.text, "a part is not the sum of its deltas")

    def _text(self, prefix: str, verb: str, event: Json) -> None:
        item = self._item(event)
        index = event.get("content_index", event.get("summary_index"))
        if index is not None:
            parts = item.parts["content" if "content_index" in event else "summary"]
            hold(index < len(parts) and parts[index] is None, f"{event['type']} for a part that is not open")
        text = item.texts.setdefault((prefix, index), _Text())
        hold(not text.whole, f"{event['type']} after its end")
        if verb == "delta":
            text.text += event["delta"]
        else:
            hold(event[_KEYS[prefix]] == text.text, f"{event['type']} is not the sum of its deltas")
            text.whole = True

    def _finish(self, item: _Open, final: Json) -> None:
        for key in _SHARED:
            hold(final.get(key) == item.added.get(key), f"an item's {key} changed")
        for where, parts in item.parts.items():
            hold(None not in parts, "an item ends before its parts")
            hold(not parts or final[where] == parts, "an item does not have the parts that were sent")
        channel = CHANNELS.get((final["type"], None))
        text = item.texts.get((channel.name, None)) if channel else None
        if channel is not None and text is None:
            hold(final["type"] not in _RUN_BY_CLIENTS, f"a {final['type']} has no {channel.key}")
        elif channel is not None and text is not None:
            hold(text.whole, f"a {final['type']} ends before its {channel.key}")
            hold(final[channel.key] == text.text, f"a {final['type']} is not the sum of its deltas")
        item.final = final

    def _end(self, kind: str, response: Json) -> None:
        hold(response["id"] == self._id, "the response's id changed")
        hold(kind == f"response.{response['status']}", f"{kind} holds a response that is {response['status']}")
        self.ended = True
        if kind == "response.failed":
            return
        hold(all(item.final is not None for item in self._items), "the response ends before its items")
        hold(response["output"] == [item.final for item in self._items], "the response is not the sum of its items")
