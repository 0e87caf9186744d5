"""Encodes events as lines of JSON, one for each piece of the reply."""

from collections.abc import Sequence

import orjson

from translation.encoding.event_encoder import EventEncoder, TextFrames
from translation.ollama.client.reply_lines import (
    PARAGRAPH_BREAK,
    LineHead,
    build_failure,
    build_whole_call,
    encode_line,
    is_cut,
)
from translation.representation.collector import ItemState
from translation.representation.delta_runs import TextKey
from translation.representation.events import Delta, Event, Failed, Finished, ItemEnded, ItemStarted, PartStarted
from translation.representation.items import text_of
from translation.representation.json_types import Json

_MARK = "\x00"
"""Stands for the text while the format of a line is built."""


class OllamaEncoder(EventEncoder):
    """Encodes one reply, to its last line with `done`. A call is one line, once it is complete."""

    def __init__(self, head: LineHead) -> None:
        super().__init__()
        self._head = head
        self._started_ns = head.clock_ns()
        self._items: dict[int, ItemState] = {}
        self._written_items: set[int] = set()
        self._written_kinds: set[str] = set()
        self._call_count = 0
        self._logprobs: Sequence[Json] = ()

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Returns the lines of one batch. Log probabilities are on the line of their text."""
        if not self._head.wants_logprobs:
            return super().feed(batch)
        lines: list[bytes] = []
        for event in batch:
            self._logprobs = event.logprobs or () if type(event) is Delta else ()
            lines.append(super().feed((event,)))
        return b"".join(lines)

    def _start_item(self, event: ItemStarted, frames: list[bytes], /) -> None:
        self._items[event.index] = ItemState(event.item)

    def _start_part(self, event: PartStarted, frames: list[bytes], /) -> None:
        state = self._items[event.index]
        state.start_part(event.part)
        if text := text_of(state.type, event.part):
            self._write_first(event.index, event.part_index, text, frames)

    def _write_text(self, index: int, part_index: int | None, text: str, frames: list[bytes], /) -> None:
        self._items[index].part_at(part_index).append(text)
        self._write_first(index, part_index, text, frames)

    def _write_first(self, index: int, part_index: int | None, text: str, frames: list[bytes]) -> None:
        """Writes the first text of a part, and adds the format of the lines for the following texts."""
        kind = self._items[index].type
        if not text or not self._is_visible(kind):
            return
        # Texts of several items, and several thoughts, are paragraphs.
        key: TextKey = (index, part_index)
        begins = index not in self._written_items or (kind == "reasoning" and key not in self._texts)
        first = PARAGRAPH_BREAK + text if begins and kind in self._written_kinds else text
        self._written_items.add(index)
        self._written_kinds.add(kind)
        frames.append(encode_line(self._build_line(kind, first, self._logprobs)))
        if not self._head.wants_logprobs or kind == "reasoning":
            line = encode_line(self._build_line(kind, _MARK)).replace(b"%", b"%%")
            frame_format = line.replace(orjson.dumps(_MARK), b"%b")
            self._texts[key] = TextFrames(frame_format, self._items[index].part_at(part_index).append)

    def _is_visible(self, kind: str) -> bool:
        return kind == "message" or (kind == "reasoning" and self._head.shows_thinking)

    def _build_line(self, kind: str, text: str, logprobs: Sequence[Json] = ()) -> Json:
        if kind == "reasoning":
            return self._head.build_line(thinking=text)
        return self._head.build_line(text, logprobs=logprobs)

    def _end_item(self, event: ItemEnded, frames: list[bytes], /) -> None:
        item = self._items[event.index].end(event.item, event.status)
        kind = item["type"]
        if kind == "function_call":
            if self._head.is_chat and not is_cut(item, event.status):
                frames.append(encode_line(self._head.build_line(calls=[build_whole_call(item, self._call_count)])))
                self._call_count += 1
        elif event.index not in self._written_items:
            # Parts that had no deltas.
            for part_index, part in enumerate([*(item.get("summary") or ()), *(item.get("content") or ())]):
                if text := text_of(kind, part):
                    self._write_whole(event.index, part_index, text, frames)

    def _write_whole(self, index: int, part_index: int, text: str, frames: list[bytes]) -> None:
        kind = self._items[index].type
        if self._is_visible(kind):
            follows = kind in self._written_kinds and (part_index == 0 or kind == "reasoning")
            self._written_kinds.add(kind)
            self._written_items.add(index)
            frames.append(encode_line(self._build_line(kind, PARAGRAPH_BREAK + text if follows else text)))

    def _encode_end(self, finished: Finished, /) -> bytes:
        return encode_line(self._head.end_line(self._head.build_line(), finished, self._usage, self._started_ns))

    def _encode_failure(self, failed: Failed, /) -> bytes:
        return encode_line(build_failure(failed.message))
