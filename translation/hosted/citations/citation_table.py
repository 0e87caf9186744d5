"""The numbers by which a model cites. Within one context, a number always stands for the same thing.

A marker is a number between two brackets that ordinary text does not have: 【3】. A tool writes it beside each of its
results, the model copies it into its answer, and there it is replaced by a citation. A marker may also name lines of
what the model was shown: 【3†L9-L11】. Models of the gpt-oss family write it so, whatever they are told.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from translation.hosted.citations.citables import BrowserView, Citable, LineRange, MarkedSource, read_source
from translation.representation.json_types import Json

MARKER_START: Final = "【"
_MARKER_END: Final = "】"
_LINES: Final = "†L([0-9]{1,6})(?:-L?([0-9]{1,6}))?"
_LINES_BEGINNING: Final = "†(?:L(?:[0-9]{1,6}(?:-L?[0-9]{0,6})?)?)?"
MARKER_PATTERN: Final = re.compile(f"{MARKER_START}([0-9]{{1,5}})(?:{_LINES})?{_MARKER_END}")
MARKER_BEGINNING_PATTERN: Final = re.compile(f"{MARKER_START}(?:[0-9]{{1,5}}(?:{_LINES_BEGINNING})?)?")

_VIEW_START: Final = re.compile(r"\[([0-9]{1,5})\] ")
"""The beginning of what a browser shows: its number in brackets that are no marker."""

_MAX_NUMBER: Final = 99_999
_PLAIN_BRACKETS: Final = {ord(MARKER_START): "[", ord(_MARKER_END): "]"}

_MAX_ENTRIES: Final = 1_000
"""The most sources of one result that are read from what was saved."""

_DETAIL_TYPE: Final = "gateway.result"
_MAX_STORED_CHARS: Final = 16_000
"""The most characters of a result that are kept for later turns. If the response is not stored, the client carries
them."""


class MarkedResult(NamedTuple):
    """The text of a result as the model read it, and what its markers stand for."""

    text: str
    citables: Mapping[int, MarkedSource]


class CitationTable:
    """What the markers in the context of one response stand for."""

    def __init__(self) -> None:
        self._citables: dict[int, MarkedSource] = {}
        self._numbers: dict[MarkedSource, int] = {}
        self._by_url: dict[str, Citable] = {}
        self._last = 0

    def __bool__(self) -> bool:
        return bool(self._citables)

    def add(self, source: MarkedSource) -> int:
        """Returns the number of something that a tool found. Numbers run on over the response and its history, and what
        is found again has its number already."""
        number = self._numbers.get(source)
        return self.append(source) if number is None else number

    def append(self, source: MarkedSource) -> int:
        """Returns a new number for something that a tool shows, even if it was shown before: it is the latest then."""
        number = self._last + 1
        self._put(number, source)
        return number

    def find(self, number: int) -> MarkedSource | None:
        """Returns what a number stands for; None if it stands for nothing."""
        return self._citables.get(number)

    def find_latest(self, kinds: tuple[type[MarkedSource], ...]) -> MarkedSource | None:
        """Returns what the highest number stands for that belongs to a source of these kinds; None without one."""
        numbers = [number for number, source in self._citables.items() if isinstance(source, kinds)]
        return self._citables[max(numbers)] if numbers else None

    def find_cited(self, marker: re.Match[str]) -> Citable | None:
        """Returns what a match of `MARKER_PATTERN` cites; None if it is no marker of something known."""
        source = self._citables.get(int(marker[1]))
        if source is None:
            return None
        first, last = marker[2], marker[3]
        return source.find_citable(None if first is None else LineRange(int(first), int(last or first)))

    def find_by_url(self, url: str) -> Citable | None:
        """Returns what a link to this URL cites; None if nothing was found there."""
        return self._by_url.get(url)

    def adopt(self, result: MarkedResult) -> MarkedResult:
        """Takes over the markers of a result from an earlier turn, or from another process.

        Returns the result as the model reads it here: a number that stands for something else already is replaced, and
        what the result does not define is no marker.
        """
        if (own_text := keep_markers(result.text, result.citables)) != result.text:
            result = result._replace(text=own_text)
        numbers: dict[int, int] = {}
        for number, citable in sorted(result.citables.items()):
            if number not in self._citables:
                self._put(number, citable)
            numbers[number] = number if self._citables.get(number) == citable else 0
        changed = [number for number, own in numbers.items() if not own]
        for number in changed:
            numbers[number] = self.add(result.citables[number])
        if not changed:
            return result
        text = MARKER_PATTERN.sub(lambda match: write_marker(numbers[int(match[1])]), result.text)
        view_start = _VIEW_START.match(text)
        if view_start is not None and isinstance(result.citables.get(int(view_start[1])), BrowserView):
            text = f"[{numbers[int(view_start[1])]}] {text[view_start.end() :]}"
        return MarkedResult(text, {numbers[number]: source for number, source in result.citables.items()})

    def _put(self, number: int, source: MarkedSource) -> None:
        self._citables[number] = source
        self._numbers.setdefault(source, number)
        self._last = max(self._last, number)
        for citable in source.citables:
            for url in citable.link_urls:
                self._by_url.setdefault(url, citable)


def write_marker(number: int) -> str:
    """Returns the marker of a number; for 0, which stands for nothing, no marker."""
    return f"{MARKER_START}{number}{_MARKER_END}" if number else ""


def remove_markers(text: str) -> str:
    """Returns a text from outside in which nothing is a marker, so that a document cannot forge a citation."""
    return text.translate(_PLAIN_BRACKETS) if MARKER_START in text or _MARKER_END in text else text


def keep_markers(text: str, numbers: Container[int]) -> str:
    """Returns the text of a result in which only these numbers are markers: others would cite what another result
    found."""
    if MARKER_START not in text:
        return text
    return MARKER_PATTERN.sub(lambda match: match[0] if int(match[1]) in numbers else remove_markers(match[0]), text)


def build_result_details(text: str, citables: Mapping[int, MarkedSource]) -> list[Json]:
    """Returns the `details` of an item with what the model read, which are sealed for the client."""
    entries = [{"number": number, **source.to_json()} for number, source in citables.items()]
    return [{"type": _DETAIL_TYPE, "text": text[:_MAX_STORED_CHARS], "citables": entries}]


def is_own_detail(detail: Any) -> bool:
    """Whether a detail of an item is the gateway's own, so that it is of use with every upstream."""
    return isinstance(detail, dict) and detail.get("type") == _DETAIL_TYPE


def read_result_details(details: Any) -> MarkedResult | None:
    """Returns the result in the `details` of an item; None if they have none. A client may have written them."""
    for detail in filter(is_own_detail, details if isinstance(details, list) else ()):
        text, entries = detail.get("text"), detail.get("citables")
        if isinstance(text, str) and isinstance(entries, list):
            return MarkedResult(text, dict(_read_entries(entries)))
    return None


def _read_entries(entries: Sequence[Any]) -> Iterator[tuple[int, MarkedSource]]:
    for entry in entries[:_MAX_ENTRIES]:
        source = read_source(entry)
        if source is not None and type(number := entry.get("number")) is int and 0 < number <= _MAX_NUMBER:
            yield number, source
