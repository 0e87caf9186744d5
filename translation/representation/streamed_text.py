"""Remembers a streamed text without keeping it, so that it can be compared with the upstream's final value."""

from typing import Final, NamedTuple, Protocol
from zlib import crc32

from translation.text_forms import (
    CLOSING_TAG_PATTERN,
    LONGEST_TAG,
    WHITE_SPACE,
    TextStart,
    list_mixed_forms,
    list_normal_forms,
    list_starts_after_thought,
    may_become_opening_tag,
    may_spell_white_space,
    normalize_like,
    opens_thought,
    remove_white_space,
    spells_white_space,
)

_MAX_BEGINNING: Final = 1000
"""The longest beginning of white space in which a text without a visible character is examined, in characters."""

_MAX_COMPARED_CHARS: Final = 200_000
"""The longest final value that is compared in other forms than its own: each takes time of other requests."""

_START: Final = TextStart(0, 0)


class LiveCounts(Protocol):
    """Counts the texts of a fast path for one StreamedText, so that a delta of it needs no call."""

    def take(self, owner: "StreamedText", /) -> tuple[int, int, int]:
        """Returns the size, the size without white space and the checksum, and stops counting for `owner`."""
        ...


class FinalRest(NamedTuple):
    """What a final value has after the streamed text."""

    text: str
    """Nothing if the final value is the same text, except for white space around it."""
    is_normalized: bool = False
    """Whether the final value is in another normal form of Unicode than the streamed text."""
    lacks_thought: bool = False
    """Whether the final value is the streamed text without the thinking before its answer."""


class StreamedText:
    """The length and a checksum of one text. Its size does not depend on that of the text.

    White space is not in the checksum, because some upstreams trim it in their final value.
    """

    __slots__ = (
        "_beginning",
        "_tail",
        "answer_start",
        "checksum",
        "ink_size",
        "live_counts",
        "opens_thought",
        "size",
        "visible_start",
    )

    def __init__(self) -> None:
        self.size = 0
        """The length of the text, in bytes of UTF-8."""
        self.ink_size = 0
        """The length without ASCII white space."""
        self.checksum = 0
        """The CRC-32 of the text without ASCII white space."""
        self.live_counts: LiveCounts | None = None
        """What counts further texts now, in the compiled core. `settle` takes its counts."""
        self.visible_start = _START
        """Where the text begins after all white space, that beyond ASCII too."""
        self.answer_start: TextStart | None = None
        """Where the text goes on after the first tag that closes thinking; None before such a tag."""
        self.opens_thought = False
        """Whether the text begins with a tag that opens thinking."""
        self._beginning: str | None = ""
        """The text, as long as it has only white space and a part of such a tag."""
        self._tail = ""
        """The end of the text, in which a closing tag may have begun."""

    @property
    def needs_reading(self) -> bool:
        """Whether each further piece has to be added here: it may begin or end the thinking."""
        return self._beginning is not None or (self.opens_thought and self.answer_start is None)

    def settle(self) -> None:
        """Makes the counts those of all texts so far."""
        if self.live_counts is not None:
            counts, self.live_counts = self.live_counts, None
            self.size, self.ink_size, self.checksum = counts.take(self)
            self._tail = ""

    def copy(self) -> "StreamedText":
        """Returns a text that equals this one now, and is added to alone."""
        self.settle()
        copied = StreamedText()
        for name in self.__slots__:
            setattr(copied, name, getattr(self, name))
        return copied

    def add(self, text: str) -> None:
        """Appends a piece of the text."""
        self.settle()
        if self._beginning is not None:
            self._read_beginning(self._beginning + text)
        if self.answer_start is None:
            seen = self._tail + text
            tag = CLOSING_TAG_PATTERN.search(seen) if "/" in seen else None
            if tag is None:
                self._tail = seen[-LONGEST_TAG:]
            else:
                end = tag.end() - len(self._tail)
                self._count(text[:end])
                self.answer_start = TextStart(self.ink_size, self.checksum)
                text = text[end:]
        self._count(text)

    def find_rest(self, final: str, thought: str = "") -> FinalRest | None:
        """Returns what a final value has after this text. Returns None if it does not begin with this text.

        `thought` is the thinking in the final value, if the upstream has separated it there: the text may begin with
        it, up to its closing tag.
        """
        self.settle()
        data = final.encode()
        if self._is_all(data[: self.size], _START):
            rest = data[self.size :].decode()
            return FinalRest(rest if rest.strip(WHITE_SPACE) else "")
        for start in dict.fromkeys((_START, self.visible_start)):
            if (rest_after := self._find_rest_after(start, final)) is not None:
                return FinalRest(rest_after)
        if len(final) > _MAX_COMPARED_CHARS:
            return None
        answers = list_starts_after_thought(thought) if self.answer_start is None else [self.answer_start]
        forms = list_normal_forms(final)
        for start in dict.fromkeys((_START, self.visible_start, *answers)):
            lacks_thought = start not in (_START, self.visible_start)
            for form in forms if start.ink_size <= self.ink_size else ():
                if (rest_after := self._find_rest_after(start, form)) is not None:
                    return FinalRest(normalize_like(final, rest_after), form != final, lacks_thought)
            if any(self._is_all(form, start) for form in list_mixed_forms(final, self.ink_size - start.ink_size)):
                return FinalRest("", True, lacks_thought)
        return None

    def _read_beginning(self, beginning: str) -> None:
        visible = beginning.lstrip(WHITE_SPACE)
        space = beginning[: len(beginning) - len(visible)]
        if remove_white_space(space.encode()):  # other white space than that does not count
            self.visible_start = _START.move_past(space)
        if may_become_opening_tag(visible) and len(beginning) < _MAX_BEGINNING:
            self._beginning = beginning
            return
        self._beginning, self.opens_thought = None, opens_thought(visible)

    def _count(self, text: str) -> None:
        data = text.encode()
        ink = remove_white_space(data)
        self.size += len(data)
        self.ink_size += len(ink)
        self.checksum = crc32(ink, self.checksum)

    def _find_rest_after(self, start: TextStart, final: str) -> str | None:
        """Returns what a final value has after the text from `start` on, nothing if that is white space.

        Returns None if it does not begin with this text.
        """
        for form in dict.fromkeys((final, final.lstrip(WHITE_SPACE))):
            data = form.encode()
            end = _find_end_of_ink(data, self.ink_size - start.ink_size)
            if self._is_all(data[:end], start):
                rest = data[end:].decode()
                return rest if rest.strip(WHITE_SPACE) else ""
        trimmed = final.strip(WHITE_SPACE)
        if not may_spell_white_space(self.ink_size - start.ink_size - len(remove_white_space(trimmed.encode()))):
            return None
        end_of_final = start.move_past(trimmed)
        missing = self.ink_size - end_of_final.ink_size
        return "" if spells_white_space(missing, end_of_final.checksum, self.checksum) else None

    def _is_all(self, data: bytes, start: TextStart) -> bool:
        ink = remove_white_space(data)
        return start.ink_size + len(ink) == self.ink_size and crc32(ink, start.checksum) == self.checksum


def find_rest(streamed: str, final: str) -> FinalRest | None:
    """Returns what a final value has after a streamed text, as `StreamedText.find_rest` does."""
    text = StreamedText()
    text.add(streamed)
    return text.find_rest(final)


def _find_end_of_ink(data: bytes, ink_size: int) -> int:
    """Returns the smallest offset before which so many bytes are no white space; the end if there are not so many."""
    start, end = 0, len(data)
    while start < end:
        middle = (start + end) // 2
        ink_before_middle = len(remove_white_space(data[start:middle]))
        if ink_before_middle < ink_size:
            start, ink_size = middle + (middle == start), ink_size - ink_before_middle
        else:
            end = middle
    return end
