"""Remembers a streamed text without keeping it, so that it can be compared with the upstream's final value."""

from typing import Final, Protocol
from zlib import crc32

_WHITE_SPACE: Final = b" \t\n\v\f\r"


class LiveCounts(Protocol):
    """Counts the texts of a fast path for one StreamedText, so that a delta of it needs no call."""

    def take(self, owner: "StreamedText", /) -> tuple[int, int, int]:
        """Returns the size, the size without white space and the checksum, and stops counting for `owner`."""
        ...


class StreamedText:
    """The length and a checksum of one text. Its size does not depend on that of the text.

    White space is not in the checksum, because some upstreams trim it in their final value.
    """

    __slots__ = ("checksum", "ink_size", "live_counts", "size")

    def __init__(self) -> None:
        self.size = 0
        """The length of the text, in bytes of UTF-8."""
        self.ink_size = 0
        """The length without ASCII white space."""
        self.checksum = 0
        """The CRC-32 of the text without ASCII white space."""
        self.live_counts: LiveCounts | None = None
        """What counts further texts now, in the compiled core. `settle` takes its counts."""

    def settle(self) -> None:
        """Makes the counts those of all texts so far."""
        if self.live_counts is not None:
            counts, self.live_counts = self.live_counts, None
            self.size, self.ink_size, self.checksum = counts.take(self)

    def copy(self) -> "StreamedText":
        """Returns a text that equals this one now, and is added to alone."""
        self.settle()
        copied = StreamedText()
        copied.size, copied.ink_size, copied.checksum = self.size, self.ink_size, self.checksum
        return copied

    def add(self, text: str) -> None:
        """Appends a piece of the text."""
        self.settle()
        data = text.encode()
        ink = _remove_white_space(data)
        self.size += len(data)
        self.ink_size += len(ink)
        self.checksum = crc32(ink, self.checksum)

    def find_rest(self, final: str) -> str | None:
        """Returns what a final value has after this text: nothing if it is the same one, except for white space.

        Returns None if the final value does not begin with this text.
        """
        self.settle()
        data = final.encode()
        if self._is_all(data[: self.size]):
            end = self.size
            is_same = not data[end:].strip()
        else:  # white space was trimmed
            end = _find_end_of_ink(data, self.ink_size)
            is_same = not data[end:].strip()
            if not self._is_all(data[:end]):
                return None
        return "" if is_same else data[end:].decode()

    def _is_all(self, data: bytes) -> bool:
        ink = _remove_white_space(data)
        return len(ink) == self.ink_size and crc32(ink) == self.checksum


def _remove_white_space(data: bytes) -> bytes:
    return data.translate(None, _WHITE_SPACE)


def _find_end_of_ink(data: bytes, ink_size: int) -> int:
    """Returns the smallest offset before which so many bytes are no white space; the end if there are not so many."""
    start, end = 0, len(data)
    while start < end:
        middle = (start + end) // 2
        ink_before_middle = len(_remove_white_space(data[start:middle]))
        if ink_before_middle < ink_size:
            start, ink_size = middle + (middle == start), ink_size - ink_before_middle
        else:
            end = middle
    return end
