"""Finds links of Markdown to what can be cited, in a text that comes in pieces."""

import re
from collections import deque
from typing import Final, NamedTuple

from translation.hosted.citations.citables import Citable
from translation.hosted.citations.citation_table import CitationTable
from translation.representation.json_types import Json

_MAX_LABEL_CHARS: Final = 500
_MAX_URL_CHARS: Final = 4000
_LABEL_END: Final = "]("
_BRACKET: Final = re.compile(r"[\[\]\n]")


class _Link(NamedTuple):
    """A link whose URL begins at `url_start`. The positions are code points of the whole text."""

    start: int
    url_start: int


class LinkFinder:
    """Finds the links of one text. It keeps no more of the text than a link may have."""

    def __init__(self, table: CitationTable) -> None:
        self._table = table
        self._text = ""
        """The end of the text, from the position `_first` on."""
        self._first = 0
        self._scanned = 0
        """The position up to which the text was searched."""
        self._link: _Link | None = None
        """The link whose URL has not ended."""
        self._ending: tuple[_Link, int, Citable] | None = None
        """A link that ended at the end of the text so far: a parenthesis may follow that belongs to it."""
        self._label_starts: deque[int] = deque(maxlen=_MAX_LABEL_CHARS)
        """The positions of brackets in which a label may begin, the innermost last."""
        self._brackets_end = 0
        """The position up to which brackets were looked for. Each is looked at once, however many labels end there."""

    @property
    def length(self) -> int:
        """The number of code points of the text so far."""
        return self._first + len(self._text)

    def skip(self, text: str) -> None:
        """Adds a text in which no link is searched, such as one that was written for a marker."""
        self._text += text
        self._link, self._scanned = None, self.length
        self._trim()

    def feed(self, text: str) -> list[Json]:
        """Adds a piece of text, which is not empty. Returns the annotations of the links that are complete now."""
        annotations: list[Json] = []
        if self._ending is not None:
            annotations.append(self._annotate(self._ending, has_next=text.startswith(")")))
        self._text += text
        self._search(annotations)
        self._trim()
        return annotations

    def finish(self) -> list[Json]:
        """Returns the annotation of a link at the end of the text, if there is one that was not returned yet."""
        return [] if self._ending is None else [self._annotate(self._ending, has_next=False)]

    def _search(self, annotations: list[Json]) -> None:
        text, first = self._text, self._first
        position = max(self._scanned - first, 0)
        while True:
            if self._link is None:
                label_end = text.find(_LABEL_END, max(position - 1, 0))
                if label_end < 0:
                    break
                position = label_end + len(_LABEL_END)
                if (start := self._find_label(first + label_end)) is not None:
                    self._link = _Link(start, first + position)
                continue
            url_start = self._link.url_start - first
            most = url_start + _MAX_URL_CHARS + 1  # what is behind it is not looked at for each link again
            end = text.find(")", position, most)
            stretch = text[url_start : most if end < 0 else end]
            if len(stretch) > _MAX_URL_CHARS or _LABEL_END in stretch or "\n" in stretch:
                self._link, position = None, url_start
                continue
            if end < 0:
                position = len(text)
                break
            position = end + 1
            # A URL may have parentheses, so a link ends where its URL is one that was found.
            citable = self._table.find_by_url(stretch.split(" ", 1)[0])
            if citable is not None:
                link, self._link = self._link, None
                self._ending = (link, first + position, citable)
                if position < len(text):
                    annotations.append(self._annotate(self._ending, has_next=text[position] == ")"))
        self._scanned = first + max(position, len(text) - 1 if self._link is None else position)

    def _find_label(self, end: int) -> int | None:
        """Returns where the label of a link begins, whose closing bracket is at `end`; None if it has no beginning."""
        start = None
        earliest = end - _MAX_LABEL_CHARS + 1
        begin = max(self._brackets_end, earliest) - self._first
        for bracket in _BRACKET.finditer(self._text, max(begin, 0), end + 1 - self._first):
            if bracket[0] == "[":
                self._label_starts.append(self._first + bracket.start())
            elif bracket[0] == "\n":
                self._label_starts.clear()
            else:
                start = self._label_starts.pop() if self._label_starts else None
        self._brackets_end = end + 1
        return None if start is None or start < earliest else start

    def _annotate(self, ending: tuple[_Link, int, Citable], *, has_next: bool) -> Json:
        """Returns the annotation of a link. `has_next`: a closing parenthesis follows it directly."""
        link, end, citable = ending
        self._ending = None
        start = link.start
        if has_next and start > self._first and self._text[start - 1 - self._first] == "(":
            start, end = start - 1, end + 1
        return citable.build_annotation(start, end)

    def _trim(self) -> None:
        """Drops the beginning of the text, up to where a link could still begin."""
        # If the link turns out to be none, the next label may begin before it.
        needed = (self.length if self._link is None else self._link.url_start) - _MAX_LABEL_CHARS
        if self._ending is not None:
            needed = min(needed, self._ending[0].start)
        if (surplus := needed - 2 - self._first) > _MAX_LABEL_CHARS:
            self._text = self._text[surplus:]
            self._first += surplus
