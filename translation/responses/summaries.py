"""Rewrites the readable reasoning of a Responses upstream as a summary, for clients that read nothing else of it."""

from typing import Any, Final

from translation.representation.items import new_summary_text
from translation.representation.json_types import Item, Json
from translation.responses.item_forms import rewrite_each

_TEXT_EVENTS: Final = {
    "response.reasoning_text.delta": "response.reasoning_summary_text.delta",
    "response.reasoning_text.done": "response.reasoning_summary_text.done",
}
"""Type of an event with reasoning text -> the type of the event with the same text of a summary."""

_PART_EVENTS: Final = {
    "response.content_part.added": "response.reasoning_summary_part.added",
    "response.content_part.done": "response.reasoning_summary_part.done",
    # Some versions of vLLM use these types for the parts of a reasoning item.
    "response.reasoning_part.added": "response.reasoning_summary_part.added",
    "response.reasoning_part.done": "response.reasoning_summary_part.done",
}
"""Type of an event with a part -> the type of the event with a part of a summary."""

_OWN_SUMMARY_EVENT: Final = "response.reasoning_summary_part.added"
_ITEM_EVENTS: Final = frozenset({"response.output_item.added", "response.output_item.done"})
_REWRITTEN_EVENTS: Final = frozenset({*_TEXT_EVENTS, *_PART_EVENTS, *_ITEM_EVENTS})

_REASONING_TEXT: Final = "reasoning_text"


class ReasoningSummaries:
    """Rewrites the events of one stream, or one whole response.

    Parts of the type `reasoning_text` become parts of the type `summary_text`. An item that has a summary of its own
    keeps both. An object that needs no change is returned as it is.
    """

    def __init__(self) -> None:
        self._summarized_items: set[int] = set()
        """The `output_index` of the items that have a summary of their own."""

    @staticmethod
    def may_change(event_type: str | None, payload: bytes) -> bool:
        """Returns whether an event of this type and JSON has to be given to `rewrite_event`."""
        if event_type == _OWN_SUMMARY_EVENT:
            return True
        return event_type in _REWRITTEN_EVENTS and b"reasoning_text" in payload

    def rewrite_event(self, event: Json) -> Json:
        """Returns the event that a client gets for an event of the stream, or for a whole response.

        Raises AttributeError or TypeError for a malformed event.
        """
        event_type = event.get("type")
        if event_type in _TEXT_EVENTS:
            return event if self._has_own_summary(event) else _readdress(event, _TEXT_EVENTS[event_type])
        if event_type in _PART_EVENTS:
            part = event["part"] if isinstance(event.get("part"), dict) else {}
            if part.get("type") != _REASONING_TEXT or self._has_own_summary(event):
                return event
            return {**_readdress(event, _PART_EVENTS[event_type]), "part": _to_summary_part(part)}
        if event_type == _OWN_SUMMARY_EVENT:
            self._summarized_items.add(event.get("output_index", 0))
        elif event_type in _ITEM_EVENTS:
            return _with_rewritten(event, "item", rewrite_item(event.get("item")))
        elif isinstance(response := event.get("response"), dict):
            return _with_rewritten(event, "response", rewrite_response(response))
        elif event_type is None:
            return rewrite_response(event)
        return event

    def _has_own_summary(self, event: Json) -> bool:
        return event.get("output_index", 0) in self._summarized_items


def rewrite_response(response: Json) -> Json:
    """Returns a response whose reasoning items have their readable text as a summary."""
    return _with_rewritten(response, "output", rewrite_output(response.get("output")))


def rewrite_output(output: Any) -> Any:
    """Returns the items of a whole response. A value that is no list is returned unchanged."""
    if not isinstance(output, list):
        return output
    return rewrite_each(output, rewrite_item)


def rewrite_item(item: Any) -> Any:
    """Returns a reasoning item with its readable text as its summary. Any other value is returned unchanged."""
    if not isinstance(item, dict) or item.get("type") != "reasoning" or item.get("summary"):
        return item
    content = item.get("content")
    if not isinstance(content, list) or not any(map(_is_reasoning_text, content)):
        return item
    rest = [part for part in content if not _is_reasoning_text(part)]
    rewritten: Item = {name: value for name, value in item.items() if name != "content"}
    rewritten["summary"] = [_to_summary_part(part) for part in content if _is_reasoning_text(part)]
    return {**rewritten, "content": rest} if rest else rewritten


def _is_reasoning_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == _REASONING_TEXT


def _to_summary_part(part: Json) -> Json:
    return {**part, **new_summary_text(), "text": part.get("text") or ""}


def _readdress(event: Json, event_type: str) -> Json:
    """Returns an event of another type whose part is addressed in the summary instead of the content."""
    fields = {name: value for name, value in event.items() if name != "content_index"}
    return {**fields, "type": event_type, "summary_index": event.get("content_index", 0)}


def _with_rewritten(whole: Json, name: str, value: Any) -> Json:
    return whole if value is whole.get(name) else {**whole, name: value}
