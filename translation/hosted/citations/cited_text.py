"""Replaces the markers of one text of an answer by citations, while the text comes in pieces."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from translation.hosted.citations.citables import Citable
from translation.hosted.citations.citation_table import (
    MARKER_BEGINNING_PATTERN,
    MARKER_PATTERN,
    MARKER_START,
    CitationTable,
)
from translation.hosted.citations.link_finder import LinkFinder
from translation.representation.items import POSITION_KEYS
from translation.representation.json_types import Json

Piece: TypeAlias = str | Json
"""A piece of the text as it is sent, or an annotation, which is sent between the pieces."""


_MAX_ADDED_CHARS: Final = 200_000
"""The most characters that the citations of one text add to it, in the text and in annotations. Further markers remain
as the model wrote them, and further links have no annotation."""


class _Replacement(NamedTuple):
    """A marker that was replaced, by its end in the model's text and in the text that is sent."""

    end: int
    sent_end: int


class CitedText:
    """One text of an answer. What is sent is the same however the model's text was cut into pieces.

    A beginning of a marker is held back, at most 22 characters. All positions are code points.
    """

    def __init__(self, table: CitationTable) -> None:
        self._table = table
        self._links = LinkFinder(table)
        self._held_back = ""
        self._length = 0
        """The length of the model's text, up to what is held back."""
        self._replacements: list[_Replacement] = []
        self._added_chars = 0

    def feed(self, text: str) -> list[Piece]:
        """Takes a piece of the model's text. Returns what is to be sent now."""
        if not self._held_back and MARKER_START not in text:
            return self._send(text)
        text, self._held_back = self._held_back + text, ""
        pieces: list[Piece] = []
        sent = position = 0
        while (start := text.find(MARKER_START, position)) >= 0:
            marker = MARKER_PATTERN.match(text, start)
            citable = None if marker is None else self._table.find_cited(marker)
            if citable is not None:
                pieces += self._send(text[sent:start])
                sent = start
            if marker is not None and citable is not None and self._added_chars < _MAX_ADDED_CHARS:
                pieces += self._cite(citable, len(marker[0]))
                sent = position = marker.end()
            elif marker is None and MARKER_BEGINNING_PATTERN.fullmatch(text, start):
                self._held_back = text[start:]
                return pieces + self._send(text[sent:start])
            else:
                position = start + 1
        return pieces + self._send(text[sent:])

    def finish(self) -> list[Piece]:
        """Returns what is left at the end of the text."""
        text, self._held_back = self._held_back, ""
        return [*self._send(text), *self._limit(self._links.finish())]

    def move_annotation(self, annotation: Json) -> Json:
        """Returns an annotation of the upstream's own with its positions in the text that is sent."""
        moved = {key: self._move(annotation[key]) for key in POSITION_KEYS if type(annotation.get(key)) is int}
        return {**annotation, **moved} if self._replacements and moved else annotation

    def _move(self, position: int) -> int:
        before = bisect_right(self._replacements, position, key=lambda replacement: replacement.end)
        if not before:
            return position
        last = self._replacements[before - 1]
        return position + last.sent_end - last.end

    def _send(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._length += len(text)
        return [text, *self._limit(self._links.feed(text))]

    def _cite(self, citable: Citable, marker_length: int) -> list[Piece]:
        pieces: list[Piece] = [*self._limit(self._links.finish())]
        start = self._links.length
        if text := citable.write_text():
            self._links.skip(text)
            pieces.append(text)
        end = self._links.length
        self._length += marker_length
        self._replacements.append(_Replacement(self._length, end))
        annotation = citable.build_annotation(start, end)
        self._added_chars += len(text) + _measure(annotation)
        return [*pieces, annotation]

    def _limit(self, annotations: Iterable[Json]) -> Iterator[Json]:
        """Yields the annotations of links, as long as they do not add too much: the links remain without them."""
        for annotation in annotations:
            if self._added_chars < _MAX_ADDED_CHARS:
                self._added_chars += _measure(annotation)
                yield annotation


def _measure(annotation: Json) -> int:
    return sum(len(value) for value in annotation.values() if isinstance(value, str))


def cite_text(table: CitationTable, text: str, annotations: Sequence[Json] = ()) -> tuple[str, list[Json]]:
    """Returns a whole text with its citations. `annotations` are the upstream's own."""
    cited = CitedText(table)
    pieces = [*cited.feed(text), *cited.finish()]
    own = [piece for piece in pieces if not isinstance(piece, str)]
    moved = [cited.move_annotation(annotation) for annotation in annotations]
    return "".join(piece for piece in pieces if isinstance(piece, str)), [*moved, *own]
