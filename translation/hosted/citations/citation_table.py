"""The numbers by which a model cites. Within one context, a number always stands for the same thing.

A marker is a number between two brackets that ordinary text does not have: 【3】. A tool writes it beside each of its
results, the model copies it into its answer, and there it is replaced by a citation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from translation.hosted.citations.citables import Citable, read_citable
from translation.representation.json_types import Json

MARKER_START: Final = "【"
_MARKER_END: Final = "】"
MARKER_PATTERN: Final = re.compile(f"{MARKER_START}([0-9]{{1,5}}){_MARKER_END}")
MARKER_BEGINNING_PATTERN: Final = re.compile(f"{MARKER_START}[0-9]{{0,5}}")

_MAX_NUMBER: Final = 99_999
_PLAIN_BRACKETS: Final = {ord(MARKER_START): "[", ord(_MARKER_END): "]"}

_DETAIL_TYPE: Final = "gateway.result"
_MAX_STORED_CHARS: Final = 16_000
"""The most characters of a result that are kept for later turns. If the response is not stored, the client carries
them."""


class MarkedResult(NamedTuple):
    """The text of a result as the model read it, and what its markers stand for."""

    text: str
    citables: Mapping[int, Citable]


class CitationTable:
    """What the markers in the context of one response stand for."""

    def __init__(self) -> None:
        self._citables: dict[int, Citable] = {}
        self._numbers: dict[Citable, int] = {}
        self._by_url: dict[str, Citable] = {}
        self._last = 0

    def __bool__(self) -> bool:
        return bool(self._citables)

    def add(self, citable: Citable) -> int:
        """Returns the number of something that a tool found. Numbers run on over the response and its history, and what
        is found again has its number already."""
        if (number := self._numbers.get(citable)) is None:
            number = self._last + 1
            self._put(number, citable)
        return number

    def find(self, number: int) -> Citable | None:
        """Returns what a number stands for; None if it stands for nothing."""
        return self._citables.get(number)

    def find_by_url(self, url: str) -> Citable | None:
        """Returns what a link to this URL cites; None if nothing was found there."""
        return self._by_url.get(url)

    def adopt(self, result: MarkedResult) -> MarkedResult:
        """Takes over the markers of a result from an earlier turn, or from another process.

        Returns the result as the model reads it here: a number that stands for something else already is replaced.
        """
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
        text = MARKER_PATTERN.sub(lambda match: write_marker(numbers.get(int(match[1]), 0)), result.text)
        return MarkedResult(text, {numbers[number]: citable for number, citable in result.citables.items()})

    def _put(self, number: int, citable: Citable) -> None:
        self._citables[number] = citable
        self._numbers.setdefault(citable, number)
        self._last = max(self._last, number)
        for url in citable.link_urls:
            self._by_url.setdefault(url, citable)


def write_marker(number: int) -> str:
    """Returns the marker of a number; for 0, which stands for nothing, no marker."""
    return f"{MARKER_START}{number}{_MARKER_END}" if number else ""


def remove_markers(text: str) -> str:
    """Returns a text from outside in which nothing is a marker, so that a document cannot forge a citation."""
    return text.translate(_PLAIN_BRACKETS) if MARKER_START in text or _MARKER_END in text else text


def build_result_details(text: str, citables: Mapping[int, Citable]) -> list[Json]:
    """Returns the `details` of an item with what the model read, which are sealed for the client."""
    entries = [{"number": number, **citable.to_json()} for number, citable in citables.items()]
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


def _read_entries(entries: Sequence[Any]) -> Iterator[tuple[int, Citable]]:
    for entry in entries:
        citable = read_citable(entry)
        if citable is not None and type(number := entry.get("number")) is int and 0 < number <= _MAX_NUMBER:
            yield number, citable
