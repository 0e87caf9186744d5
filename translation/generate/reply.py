"""Builds a reply of `/generate` from events, as pieces of a stream and as a whole object."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import orjson

from translation.exact_numbers import parse_tool_data
from translation.parsers.text_calls import CALL_PARSE_ERROR, TOOL_WARNINGS
from translation.representation.events import (
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    PartEnded,
    PartStarted,
    Usage,
)
from translation.representation.items import TEXT_FIELDS
from translation.representation.json_types import Item, Json

_ReplyKey: TypeAlias = Literal["thinking", "response"]

_REPLY_KEYS: dict[tuple[str, str | None], _ReplyKey] = {
    ("reasoning", "reasoning_text"): "thinking",
    ("reasoning", "summary_text"): "thinking",
    ("message", "output_text"): "response",
    ("message", "refusal"): "response",
}
"""(item type, part type) -> the key of the reply that its text is added to."""

_FINISH_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Finish reason of a turn -> finish reason of the reply. Any other is `stop`, or `tool_calls` if there are calls."""

_PARAGRAPH_GAP = "\n\n"


class _Call:
    def __init__(self, item: Item, number: int) -> None:
        self.number = number
        self.id = item["call_id"]
        self.name = item["name"]
        self.pieces: list[str] = []
        self.is_cut = False

    def parse_arguments(self) -> Any:
        """Returns the parsed arguments, or None if they are not JSON.

        Models leave the arguments empty for tools without parameters, so empty text is an empty object.
        """
        text = "".join(self.pieces).strip()
        try:
            return parse_tool_data(text or ("null" if self.is_cut else "{}"))
        except orjson.JSONDecodeError:
            return None


class GenerateReply:
    """Collects one reply. The batches must satisfy the event grammar; the reply is whole after Finished or Failed."""

    def __init__(self, model: str) -> None:
        self.failed: Failed | None = None
        """The failure of the turn; None if it did not fail. A failed turn has no whole reply."""
        self.finished = False
        """Whether the turn ended without a failure, so that `result` is whole."""
        self._model = model
        self._texts: dict[_ReplyKey, list[str]] = {"thinking": [], "response": []}
        self._item_types: list[str] = []
        self._part_types: dict[tuple[int, int | None], str | None] = {}
        self._written_parts: set[tuple[int, int | None]] = set()
        self._written_items: set[int] = set()
        self._calls: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._warnings: list[Json] = []
        self._finish_reason = "stop"
        self._remarks: Json = {}

    def feed(self, batch: Sequence[Event]) -> list[Json]:
        """Adds one batch. Returns its pieces for a stream, objects with `thinking`, `response` or `tool_call`."""
        pieces: list[Json] = []
        for event in batch:
            match event:
                case Delta():
                    self._add_text(event.index, event.part_index, event.text, pieces)
                case ItemStarted():
                    self._start_item(event, pieces)
                case PartStarted():
                    self._start_part(event, pieces)
                case PartEnded(part=dict(part)):
                    self._end_part(event, part, pieces)
                case ItemEnded():
                    self._end_item(event, pieces)
                case Noted():
                    self._usage = event.usage or self._usage
                    self._warnings += (event.facts or {}).get(TOOL_WARNINGS, ())
                case Finished():
                    self._usage = event.usage or self._usage
                    self._finish(event)
                case Failed():
                    self.failed = event
                case _:
                    pass  # the reply has no field for the other events
        return pieces

    def result(self) -> Json:
        """Returns the whole reply. Call it only once `finished` is True.

        In a reply with calls, `response` and `pre_tool_text` are both the whole text around the calls, stripped.
        """
        response = "".join(self._texts["response"])
        calls = [
            {"id": call.id, "name": call.name, "arguments": arguments}
            for call in self._calls.values()
            if isinstance(arguments := call.parse_arguments(), dict)
        ]
        if calls:
            response = response.strip()
        reply = {
            "thinking": "".join(self._texts["thinking"]),
            "response": response,
            "tool_calls": calls,
            "pre_tool_text": response if calls else "",
            "finish_reason": "tool_calls" if calls and self._finish_reason == "stop" else self._finish_reason,
            "model": self._model,
            "usage": _build_usage(self._usage),
        }
        reply |= self._remarks
        return {**reply, "tool_warnings": self._warnings} if self._warnings else reply

    def _start_item(self, event: ItemStarted, pieces: list[Json]) -> None:
        self._item_types.append(event.item["type"])
        if event.item["type"] != "function_call":
            return
        call = self._calls[event.index] = _Call(event.item, len(self._calls))
        pieces.append({"tool_call": {"index": call.number, "id": call.id, "name": call.name, "arguments": ""}})
        self._add_text(event.index, None, event.item.get("arguments") or "", pieces)

    def _start_part(self, event: PartStarted, pieces: list[Json]) -> None:
        part_type = self._part_types[event.index, event.part_index] = event.part.get("type")
        if (text_field := TEXT_FIELDS.get((self._item_types[event.index], part_type))) is not None:
            self._add_text(event.index, event.part_index, event.part.get(text_field.key) or "", pieces)

    def _end_part(self, event: PartEnded, part: Json, pieces: list[Json]) -> None:
        """Adds the text of the upstream's own final part, if there were no deltas for that part."""
        key = (event.index, event.part_index)
        text_field = TEXT_FIELDS.get((self._item_types[event.index], self._part_types.get(key)))
        if text_field is not None and key not in self._written_parts:
            self._add_text(*key, part.get(text_field.key) or "", pieces)

    def _end_item(self, event: ItemEnded, pieces: list[Json]) -> None:
        index, item = event.index, event.item or {}
        if (call := self._calls.get(index)) is not None:
            call.is_cut = "incomplete" in (event.status, item.get("status"))
        if index in self._written_items:
            return
        if call is not None:
            self._add_text(index, None, item.get("arguments") or "", pieces)
            return
        for part_index, part in enumerate([*(item.get("summary") or ()), *(item.get("content") or ())]):
            if (text_field := TEXT_FIELDS.get((self._item_types[index], part.get("type")))) is not None:
                self._part_types[index, part_index] = part["type"]
                self._add_text(index, part_index, part.get(text_field.key) or "", pieces)

    def _add_text(self, index: int, part_index: int | None, text: str, pieces: list[Json]) -> None:
        key = (index, part_index)
        if not text:
            return
        if (call := self._calls.get(index)) is not None:
            call.pieces.append(text)
            pieces.append({"tool_call": {"index": call.number, "arguments": text}})
        elif (reply_key := _REPLY_KEYS.get((self._item_types[index], self._part_types.get(key)))) is not None:
            # Summaries are paragraphs. Raw reasoning between other items is one text, which may be cut anywhere.
            starts_paragraph = bool(part_index) or self._part_types[key] == "summary_text"
            if (
                reply_key == "thinking"
                and starts_paragraph
                and key not in self._written_parts
                and self._texts[reply_key]
            ):
                text = _PARAGRAPH_GAP + text
            self._texts[reply_key].append(text)
            pieces.append({reply_key: text})
        self._written_parts.add(key)
        self._written_items.add(index)

    def _finish(self, event: Finished) -> None:
        self._finish_reason = _FINISH_REASONS.get(event.reason, "stop")
        self._remarks = event.remarks
        whole_calls = [call for call in self._calls.values() if not call.is_cut]
        broken = [call.name for call in whole_calls if not isinstance(call.parse_arguments(), dict)]
        if broken and self._finish_reason == "stop":
            # A call that was cut off is left out. A complete call with such arguments is a failure.
            message = f"the model called '{broken[0]}' with arguments that are not a JSON object"
            self.failed = Failed(CALL_PARSE_ERROR, message, usage=self._usage)
        else:
            self.finished = True


def _build_usage(usage: Usage | None) -> Json | None:
    """Returns the token counts, with thinking and answer apart. Counts that the upstream did not report are null."""
    if usage is None:
        return None
    thinking, output = usage.reasoning, usage.output
    counted = usage.input is not None and output is not None
    return {
        "prompt_tokens": usage.input,
        "thinking_tokens": thinking,
        "response_tokens": None if output is None else output - (thinking or 0),
        "total_tokens": (usage.input or 0) + (output or 0) if counted else None,
        "cached_tokens": usage.cache_read,
    }
