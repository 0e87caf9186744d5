"""Replaces markers in the events of a round: in its deltas, and in the final parts and items of its upstream."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from translation.hosted.citations.citation_table import CitationTable
from translation.hosted.citations.cited_text import CitedText, Piece, cite_text
from translation.representation.delta_runs import TextKey
from translation.representation.events import Annotated, Delta, Event, ItemEnded, PartEnded, PartStarted
from translation.representation.json_types import Item, Json

_ANSWER: Final = "output_text"


class _Part:
    """One text part of an answer, and how much of the model's text it has processed."""

    def __init__(self, table: CitationTable, index: int, part_index: int) -> None:
        self.cited = CitedText(table)
        self.texts: list[str] = []
        self._index = index
        self._part_index = part_index
        self._logprobs: list[Json] = []
        """The log probabilities of text that is held back."""

    def feed(self, text: str, logprobs: Sequence[Json]) -> list[Event]:
        self.texts.append(text)
        self._logprobs += logprobs
        return self._write(self.cited.feed(text))

    def finish(self, whole: str | None) -> list[Event]:
        """Ends the text. `whole` is the model's whole text, if the upstream sent it again."""
        sent = "".join(self.texts)
        missing = whole.removeprefix(sent) if whole is not None and whole.startswith(sent) else ""
        events = self._write([*(self.cited.feed(missing) if missing else ()), *self.cited.finish()])
        if self._logprobs:  # they belong to a marker at the end
            events.append(Delta(self._index, self._part_index, "", [*self._logprobs]))
        return events

    def _write(self, pieces: Sequence[Piece]) -> list[Event]:
        events: list[Event] = []
        for piece in pieces:
            if isinstance(piece, str):
                events.append(Delta(self._index, self._part_index, piece, [*self._logprobs] or None))
                self._logprobs.clear()
            else:
                events.append(Annotated(self._index, self._part_index, piece))
        return events


class CitedParts:
    """Replaces the markers in the answers of one round, whose tools have written `table`."""

    def __init__(self, table: CitationTable) -> None:
        self._table = table
        self._parts: dict[tuple[int, int | None], _Part] = {}

    def has_text(self, text_key: TextKey) -> bool:
        """Whether markers are replaced in this text, so that its deltas have to be fed."""
        return text_key in self._parts

    def feed(self, event: Event) -> Sequence[Event]:
        """Returns what is sent for an event of an item."""
        match event:
            case PartStarted(part={"type": "output_text"}) if self._table:
                return self._start(event)
            case Delta() if (part := self._parts.get((event.index, event.part_index))) is not None:
                return part.feed(event.text, event.logprobs or ())
            case Annotated() if (part := self._parts.get((event.index, event.part_index))) is not None:
                return [replace(event, annotation=part.cited.move_annotation(event.annotation))]
            case PartEnded() if (part := self._parts.get((event.index, event.part_index))) is not None:
                whole = None if event.part is None else event.part.get("text")
                events = part.finish(whole if isinstance(whole, str) else None)
                return [*events, event if event.part is None else replace(event, part=self._cite_part(event.part))]
            case ItemEnded(item={"type": "message"}) if self._table:
                return [replace(event, item=self._cite_item(event.item or {}))]
        return (event,)

    def _start(self, event: PartStarted) -> list[Event]:
        part = self._parts[event.index, event.part_index] = _Part(self._table, event.index, event.part_index)
        text = event.part.get("text")
        if not (isinstance(text, str) and text):
            return [event]
        return [replace(event, part={**event.part, "text": ""}), *part.feed(text, ())]

    def _cite_part(self, part: Json) -> Json:
        text = part.get("text")
        if part.get("type") != _ANSWER or not isinstance(text, str):
            return part
        cited, annotations = cite_text(self._table, text, part.get("annotations") or ())
        return {**part, "text": cited, "annotations": annotations}

    def _cite_item(self, item: Item) -> Item:
        content = item.get("content")
        if not isinstance(content, list):
            return item
        return {**item, "content": [self._cite_part(part) if isinstance(part, dict) else part for part in content]}
