"""Events → a reply of `/generate`, piece by piece and whole. A stream and an answer are the same reply."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import orjson

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
from translation.representation.json_types import Item, Json
from translation.representation.text_fields import TEXT_FIELDS

_ReplyKey: TypeAlias = Literal["thinking", "response"]

_REPLY_KEYS: dict[tuple[str, str | None], _ReplyKey] = {
    ("reasoning", "reasoning_text"): "thinking",
    ("reasoning", "summary_text"): "thinking",
    ("message", "output_text"): "response",
    ("message", "refusal"): "response",
}
"""(item type, part type) -> the key its text is in."""

_FINISH_REASONS = {"length": "length", "content_filter": "content_filter"}
"""Any other is `stop`, or `tool_calls` where calls were made."""

_PARAGRAPH_GAP = "\n\n"


class _Call:
    def __init__(self, item: Item, number: int) -> None:
        self.number = number
        self.id = item["call_id"]
        self.name = item["name"]
        self.pieces: list[str] = []
        self.is_cut = False

    def parse_arguments(self) -> Any:
        """What the text means as JSON, or None if it is none. Models leave it empty for tools without parameters."""
        text = "".join(self.pieces).strip()
        try:
            return orjson.loads(text or ("null" if self.is_cut else "{}"))
        except orjson.JSONDecodeError:
            return None


class GenerateReply:
    """One reply in the making. Feed it batches that satisfy the event grammar; read it after Finished or Failed."""

    def __init__(self, model: str) -> None:
        self.failed: Failed | None = None
        """How it ended badly; then there is no whole reply."""
        self.finished = False
        self._model = model
        self._texts: dict[_ReplyKey, list[str]] = {"thinking": [], "response": []}
        self._pre_tool_text: str | None = None
        self._item_types: list[str] = []
        self._part_types: dict[tuple[int, int | None], str | None] = {}
        self._written_parts: set[tuple[int, int | None]] = set()
        self._written_items: set[int] = set()
        self._calls: dict[int, _Call] = {}
        self._usage: Usage | None = None
        self._warnings: list[Json] = []
        self._finish_reason = "stop"

    def feed(self, batch: Sequence[Event]) -> list[Json]:
        """Take one batch; what it adds, in the pieces that a stream says: `thinking`, `response`, `tool_call`."""
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
                    pass  # nothing of it has a place here
        return pieces

    def result(self) -> Json:
        """The whole reply. Only once `finished`."""
        response = "".join(self._texts["response"])
        calls = [
            {"id": call.id, "name": call.name, "arguments": arguments}
            for call in self._calls.values()
            if isinstance(arguments := call.parse_arguments(), dict)
        ]
        reply = {
            "thinking": "".join(self._texts["thinking"]),
            "response": response,
            "tool_calls": calls,
            "pre_tool_text": (self._pre_tool_text or "") if calls else "",
            "finish_reason": "tool_calls" if calls and self._finish_reason == "stop" else self._finish_reason,
            "model": self._model,
            "usage": _build_usage(self._usage),
        }
        return {**reply, "tool_warnings": self._warnings} if self._warnings else reply

    def _start_item(self, event: ItemStarted, pieces: list[Json]) -> None:
        self._item_types.append(event.item["type"])
        if event.item["type"] != "function_call":
            return
        call = self._calls[event.index] = _Call(event.item, len(self._calls))
        if self._pre_tool_text is None:
            self._pre_tool_text = "".join(self._texts["response"])
        pieces.append({"tool_call": {"index": call.number, "id": call.id, "name": call.name, "arguments": ""}})
        self._add_text(event.index, None, event.item.get("arguments") or "", pieces)

    def _start_part(self, event: PartStarted, pieces: list[Json]) -> None:
        part_type = self._part_types[event.index, event.part_index] = event.part.get("type")
        if (channel := TEXT_FIELDS.get((self._item_types[event.index], part_type))) is not None:
            self._add_text(event.index, event.part_index, event.part.get(channel.key) or "", pieces)

    def _end_part(self, event: PartEnded, part: Json, pieces: list[Json]) -> None:
        """What the upstream says of a text at its end, where it has said nothing of it before."""
        key = (event.index, event.part_index)
        channel = TEXT_FIELDS.get((self._item_types[event.index], self._part_types.get(key)))
        if channel is not None and key not in self._written_parts:
            self._add_text(*key, part.get(channel.key) or "", pieces)

    def _end_item(self, event: ItemEnded, pieces: list[Json]) -> None:
        index, item = event.index, event.item or {}
        if (call := self._calls.get(index)) is not None:
            call.is_cut = "incomplete" in (event.status, item.get("status"))
        if index in self._written_items:
            return
        if call is not None:
            self._add_text(index, None, item.get("arguments") or "", pieces)
            return
        for place, part in enumerate([*(item.get("summary") or ()), *(item.get("content") or ())]):
            if (channel := TEXT_FIELDS.get((self._item_types[index], part.get("type")))) is not None:
                self._part_types[index, place] = part["type"]
                self._add_text(index, place, part.get(channel.key) or "", pieces)

    def _add_text(self, index: int, part_index: int | None, text: str, pieces: list[Json]) -> None:
        key = (index, part_index)
        if not text:
            return
        if (call := self._calls.get(index)) is not None:
            call.pieces.append(text)
            pieces.append({"tool_call": {"index": call.number, "arguments": text}})
        elif (noun := _REPLY_KEYS.get((self._item_types[index], self._part_types.get(key)))) is not None:
            # Summaries are paragraphs; raw thoughts that come between texts are one text, cut anywhere.
            apart = bool(part_index) or self._part_types[key] == "summary_text"
            if noun == "thinking" and apart and key not in self._written_parts and self._texts[noun]:
                text = _PARAGRAPH_GAP + text
            self._texts[noun].append(text)
            pieces.append({noun: text})
        self._written_parts.add(key)
        self._written_items.add(index)

    def _finish(self, event: Finished) -> None:
        self._finish_reason = _FINISH_REASONS.get(event.reason, "stop")
        broken = [call.name for call in self._calls.values() if not isinstance(call.parse_arguments(), dict)]
        if broken and self._finish_reason == "stop":
            # A call that was cut off is none; one that the model ended like this is a failure.
            told = f"the model called '{broken[0]}' with arguments that are no JSON object"
            self.failed = Failed(CALL_PARSE_ERROR, told, usage=self._usage)
        else:
            self.finished = True


def _build_usage(usage: Usage | None) -> Json | None:
    """Tokens, thinking and answer apart; null is what the upstream did not report."""
    if usage is None:
        return None
    thinking, said = usage.reasoning, usage.output
    counted = usage.input is not None and said is not None
    return {
        "prompt_tokens": usage.input,
        "thinking_tokens": thinking,
        "response_tokens": None if said is None else said - (thinking or 0),
        "total_tokens": (usage.input or 0) + (said or 0) if counted else None,
        "cached_tokens": usage.cache_read,
    }
