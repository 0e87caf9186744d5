"""Checks the event order of Responses streams with an independent implementation of its rules.

It shares no table with the source: it is the specification written down a second time.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson
from openai._models import construct_type
from openai._types import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

Json = dict[str, Any]

_EVENT = TypeAdapter(ResponseStreamEvent)

# event prefix -> (key of the whole text, key of the part's position or None for the item's own text)
_TEXTS = {
    "response.output_text": ("text", "content_index"),
    "response.refusal": ("refusal", "content_index"),
    "response.reasoning_text": ("text", "content_index"),
    "response.reasoning_summary_text": ("text", "summary_index"),
    "response.function_call_arguments": ("arguments", None),
    "response.custom_tool_call_input": ("input", None),
    "response.mcp_call_arguments": ("arguments", None),
    "response.code_interpreter_call_code": ("code", None),
}
_PARTS = {
    "response.content_part": ("content", "content_index"),
    "response.reasoning_summary_part": ("summary", "summary_index"),
}
_PART_TEXTS = {
    "output_text": "response.output_text",
    "refusal": "response.refusal",
    "reasoning_text": "response.reasoning_text",
    "summary_text": "response.reasoning_summary_text",
}
_ENDS = {"response.completed", "response.incomplete", "response.failed"}
_MUST_END_ITS_TEXT = {"function_call", "custom_tool_call"}


def read_stream(wire: bytes) -> list[Json]:
    """The events of a whole stream, whose frames must be exactly as the API writes them."""
    *frames, done, rest = wire.split(b"\n\n")
    assert rest == b"", "the stream ends inside a frame"
    assert done == b"data: [DONE]"
    events = []
    for frame in frames:
        name, payload = frame.split(b"\n")
        event = orjson.loads(payload.removeprefix(b"data: "))
        assert name == b"event: " + event["type"].encode()
        events.append(event)
    return events


def check_stream(wire: bytes) -> list[Json]:
    """Checks frames, order, official types and the official client's accumulator. Returns the events."""
    events = read_stream(wire)
    check_order(events)
    check_types(events)
    accumulate(events)
    return events


_UNLISTED_ERROR_CODES = {"context_length_exceeded", "insufficient_quota"}
"""OpenAI sends them, and Codex reads them, although the official types lack them."""


def check_types(events: list[Json]) -> None:
    for event in events:
        listed = {**event, "response": _list_error_code(event["response"])} if "response" in event else event
        _EVENT.validate_python(listed, strict=True)


def check_response(response: Json) -> None:
    TypeAdapter(Response).validate_python(_list_error_code(response), strict=True)


def _list_error_code(response: Json) -> Json:
    error = response.get("error")
    if not error or error["code"] not in _UNLISTED_ERROR_CODES:
        return response
    return {**response, "error": {**error, "code": "server_error"}}


def accumulate(events: list[Json]) -> Any:
    """Returns the result of the official client's stream helper, which raises if the events do not fit together."""
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        decoded: Any = construct_type(value=event, type_=ResponseStreamEvent)
        state.handle_event(decoded)
    return state._completed_response


def check_order(events: list[Json]) -> None:
    """Raises AssertionError at the first event that has no right to be where it is."""
    order = _Order()
    for position, event in enumerate(events):
        assert event["sequence_number"] == position, f"event {position} has number {event['sequence_number']}"
        order.take(event)
    assert order.ended, "no terminal event"


@dataclass
class _Text:
    text: str = ""
    text_done: bool = False
    done: Json | None = None


@dataclass
class _Item:
    added: Json
    own: _Text = field(default_factory=_Text)
    parts: dict[str, list[_Text]] = field(default_factory=lambda: {"content": [], "summary": []})
    types: dict[str, list[str]] = field(default_factory=lambda: {"content": [], "summary": []})
    done: Json | None = None


class _Order:
    def __init__(self) -> None:
        self.ended = False
        self._seen: list[str] = []
        self._head: Json = {}
        self._items: list[_Item] = []

    def take(self, event: Json) -> None:
        kind = event["type"]
        assert not self.ended, f"{kind} after the end"
        if kind in ("response.created", "response.queued", "response.in_progress"):
            self._lifecycle(kind, event["response"])
        else:
            assert "response.in_progress" in self._seen, f"{kind} before response.in_progress"
            self._take(kind, event)
        self._seen.append(kind)

    def _lifecycle(self, kind: str, response: Json) -> None:
        assert not self._items
        assert kind not in self._seen
        assert (kind == "response.created") == (not self._seen), "response.created is first"
        self._head = self._head or response
        self._same_response(response)
        assert response["output"] == []
        assert response["usage"] is None

    def _same_response(self, response: Json) -> None:
        for key in ("id", "created_at", "model", "object"):
            assert response[key] == self._head[key], f"{key} changed"
        assert response.keys() >= self._head.keys()

    def _take(self, kind: str, event: Json) -> None:
        prefix, _, verb = kind.rpartition(".")
        if kind in _ENDS:
            self._end(kind, event["response"])
        elif kind == "response.output_item.added":
            assert event["output_index"] == len(self._items), "output_index skips"
            assert event["item"]["id"] not in {item.added["id"] for item in self._items}
            self._items.append(_Item(event["item"]))
        elif kind == "response.output_item.done":
            self._end_item(self._item(event), event["item"])
        elif prefix in _PARTS:
            self._part(prefix, verb, event)
        elif prefix in _TEXTS and verb in ("delta", "done"):
            self._text(prefix, verb, event)
        elif "output_index" in event:
            self._item(event)

    def _item(self, event: Json) -> _Item:
        item = self._items[event["output_index"]]
        assert item.done is None, f"{event['type']} for an item that is done"
        assert event.get("item_id", item.added["id"]) == item.added["id"], "the item's id changed"
        return item

    def _part(self, prefix: str, verb: str, event: Json) -> None:
        where, index_key = _PARTS[prefix]
        item = self._item(event)
        parts = item.parts[where]
        if verb == "added":
            assert event[index_key] == len(parts), f"{index_key} skips"
            assert not any(event["part"].get(key) for key in ("text", "refusal")), "a part starts empty"
            parts.append(_Text())
            item.types[where].append(event["part"]["type"])
            return
        part = parts[event[index_key]]
        assert part.done is None
        assert event["part"]["type"] == item.types[where][event[index_key]]
        if channel := _PART_TEXTS.get(event["part"]["type"]):
            assert part.text_done, "a part is done before its text"
            assert event["part"][_TEXTS[channel][0]] == part.text, "the part is not what its deltas said"
        part.done = event["part"]

    def _text(self, prefix: str, verb: str, event: Json) -> None:
        key, index_key = _TEXTS[prefix]
        item = self._item(event)
        if index_key is None:
            text = item.own
        else:
            where = index_key.removesuffix("_index")
            text = item.parts[where][event[index_key]]
            assert _PART_TEXTS[item.types[where][event[index_key]]] == prefix
        assert not text.text_done, f"{event['type']} after its done"
        assert prefix != "response.output_text" or isinstance(event["logprobs"], list)
        if verb == "delta":
            text.text += event["delta"]
            return
        assert event[key] == text.text, "done is not the sum of its deltas"
        text.text_done = True
        if prefix == "response.function_call_arguments":
            assert event["name"] == item.added["name"]

    def _end_item(self, item: _Item, done: Json) -> None:
        for key in ("id", "type", "call_id", "name"):
            assert done.get(key) == item.added.get(key), f"{key} changed"
        for where, parts in item.parts.items():
            assert all(part.done is not None for part in parts), "an item is done before its parts"
            if parts:
                assert done[where] == [part.done for part in parts]
        for prefix, (key, index_key) in _TEXTS.items():
            if index_key is None and prefix.startswith(f"response.{done['type']}_"):
                assert item.own.text_done or done["type"] not in _MUST_END_ITS_TEXT
                assert not item.own.text_done or done[key] == item.own.text
        item.done = done

    def _end(self, kind: str, response: Json) -> None:
        self._same_response(response)
        assert kind == f"response.{response['status']}"
        assert kind == "response.completed" or response.get("completed_at") is None
        assert (response["incomplete_details"] is not None) == (kind == "response.incomplete")
        assert (response["error"] is not None) == (kind == "response.failed")
        output = response["output"]
        assert len(output) == len(self._items)
        for item, final in zip(self._items, output, strict=True):
            assert final["id"] == item.added["id"]
            if kind != "response.failed":
                assert item.done is not None, "the response is done before its items"
            assert item.done is None or item.done == final
        self.ended = True
