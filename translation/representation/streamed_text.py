"""Remembers a streamed text without keeping it, so that it can be compared with the upstream's final value."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from translation.text_forms import (
    ASCII_SPACE,
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

_MAX_UNREAD: Final = 32
_MAX_UNREAD_CHARS: Final = 1000
"""So many pieces of a text are kept and read at once, if they are not longer than this."""

_START: Final = TextStart(0, 0)

_PLAIN_BEGINNING: Final = re.compile(f"[{ASCII_SPACE.decode()}]*[^{re.escape(WHITE_SPACE)}<\\[]")
"""Matches the beginning of most texts: no white space beyond ASCII, and no tag that opens thinking."""


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

    White space is not in the checksum, because some upstreams trim it in their final value. Most upstreams send no
    final value, so the pieces of a text are read a few at once, and the last ones only if there is one.
    """

    __slots__ = (
        "_answer_start",
        "_beginning",
        "_checksum",
        "_ink_size",
        "_size",
        "_tail",
        "_unread",
        "live_counts",
        "opens_thought",
        "visible_start",
    )

    def __init__(self) -> None:
        self._size = self._ink_size = self._checksum = 0
        self.live_counts: LiveCounts | None = None
        """What counts further texts now, in the compiled core. `settle` takes its counts."""
        self.visible_start = _START
        """Where the text begins after all white space, that beyond ASCII too."""
        self._answer_start: TextStart | None = None
        self.opens_thought = False
        """Whether the text begins with a tag that opens thinking."""
        self._beginning: str | None = ""
        """The text, as long as it has only white space and a part of such a tag."""
        self._tail = ""
        """The end of the text, in which a closing tag may have begun."""
        self._unread: list[str] = []
        """The latest pieces, which the counts do not have yet."""

    @property
    def needs_reading(self) -> bool:
        """Whether each further piece has to be added here: it may begin or end the thinking."""
        return self._beginning is not None or (self.opens_thought and self._answer_start is None)

    @property
    def size(self) -> int:
        """The length of the text, in bytes of UTF-8."""
        self.settle()
        return self._size

    @property
    def ink_size(self) -> int:
        """The length without ASCII white space."""
        self.settle()
        return self._ink_size

    @property
    def checksum(self) -> int:
        """The CRC-32 of the text without ASCII white space."""
        self.settle()
        return self._checksum

    @property
    def answer_start(self) -> TextStart | None:
        """Where the text goes on after the first tag that closes thinking; None before such a tag."""
        self.settle()
        return self._answer_start

    def settle(self) -> None:
        """Makes the counts those of all texts so far."""
        if self._unread:
            text = "".join(self._unread)
            self._unread.clear()
            self._read(text)
        if self.live_counts is not None:
            counts, self.live_counts = self.live_counts, None
            self._size, self._ink_size, self._checksum = counts.take(self)
            self._tail = ""

    def copy(self) -> "StreamedText":
        """Returns a text that equals this one now, and is added to alone."""
        self.settle()
        copied = StreamedText()
        for name in self.__slots__:
            setattr(copied, name, getattr(self, name))
        copied._unread = []
        return copied

    def add(self, text: str) -> None:
        """Appends a piece of the text."""
        if self.live_counts is not None:
            self.settle()
        if (beginning := self._beginning) is not None:
            if beginning or _PLAIN_BEGINNING.match(text) is None:
                self._read_beginning(beginning + text)
            else:
                self._beginning = None
        self._unread.append(text)
        is_full = len(self._unread) >= _MAX_UNREAD or len(text) > _MAX_UNREAD_CHARS
        if is_full or self.opens_thought or self._beginning is not None:
            self.settle()  # of thinking, each piece decides whether further ones need reading

    def make_appender(self) -> Callable[[str], object]:
        """Returns a function that appends a few further pieces after an added one, until another method is called.

        It must not be used while `needs_reading` is true.
        """
        return self._unread.append

    def _read(self, text: str) -> None:
        """Adds a text to the counts, and looks for a tag that closes thinking."""
        if self._answer_start is None:
            seen = self._tail + text
            tag = CLOSING_TAG_PATTERN.search(seen) if "/" in seen else None
            if tag is None:
                self._tail = seen[-LONGEST_TAG:]
            else:
                end = tag.end() - len(self._tail)
                self._count(text[:end])
                self._answer_start = TextStart(self._ink_size, self._checksum)
                text = text[end:]
        self._count(text)

    def find_rest(self, final: str, thought: str = "") -> FinalRest | None:
        """Returns what a final value has after this text. Returns None if it does not begin with this text.

        `thought` is the thinking in the final value, if the upstream has separated it there: the text may begin with
        it, up to its closing tag.
        """
        self.settle()
        data = final.encode()
        if self._is_all(data[: self._size], _START):
            rest = data[self._size :].decode()
            return FinalRest(rest if rest.strip(WHITE_SPACE) else "")
        for start in dict.fromkeys((_START, self.visible_start)):
            if (rest_after := self._find_rest_after(start, final)) is not None:
                return FinalRest(rest_after)
        if len(final) > _MAX_COMPARED_CHARS:
            return None
        answers = list_starts_after_thought(thought) if self._answer_start is None else [self._answer_start]
        forms = list_normal_forms(final)
        for start in dict.fromkeys((_START, self.visible_start, *answers)):
            lacks_thought = start not in (_START, self.visible_start)
            for form in forms if start.ink_size <= self._ink_size else ():
                if (rest_after := self._find_rest_after(start, form)) is not None:
                    return FinalRest(normalize_like(final, rest_after), form != final, lacks_thought)
            if any(self._is_all(form, start) for form in list_mixed_forms(final, self._ink_size - start.ink_size)):
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
        ink = data.translate(None, ASCII_SPACE)
        self._size += len(data)
        self._ink_size += len(ink)
        self._checksum = crc32(ink, self._checksum)

    def _find_rest_after(self, start: TextStart, final: str) -> str | None:
        """Returns what a final value has after the text from `start` on, nothing if that is white space.

        Returns None if it does not begin with this text.
        """
        for form in dict.fromkeys((final, final.lstrip(WHITE_SPACE))):
            data = form.encode()
            end = _find_end_of_ink(data, self._ink_size - start.ink_size)
            if self._is_all(data[:end], start):
                rest = data[end:].decode()
                return rest if rest.strip(WHITE_SPACE) else ""
        trimmed = final.strip(WHITE_SPACE)
        if not may_spell_white_space(self._ink_size - start.ink_size - len(remove_white_space(trimmed.encode()))):
            return None
        end_of_final = start.move_past(trimmed)
        missing = self._ink_size - end_of_final.ink_size
        return "" if spells_white_space(missing, end_of_final.checksum, self._checksum) else None

    def _is_all(self, data: bytes, start: TextStart) -> bool:
        ink = remove_white_space(data)
        return start.ink_size + len(ink) == self._ink_size and crc32(ink, start.checksum) == self._checksum


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
