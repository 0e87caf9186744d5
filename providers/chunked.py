"""Chunks of a body, as HTTP/1.1 frames them (RFC 9112, section 7.1)."""

from collections.abc import Mapping
from typing import Final

from providers.core import CORE

_LONGEST: Final = 1024
_CRLF_BYTES: Final = 2


def _size_lines() -> dict[int, tuple[bytes, bytes]]:
    lines = {}
    for size in range(1, _LONGEST + 1):
        lower, upper = b"%x\r\n" % size, b"%X\r\n" % size
        lines[len(lower) + size + _CRLF_BYTES] = (lower, lower if lower == upper else upper)
    return lines


SIZE_LINES: Final[Mapping[int, tuple[bytes, bytes]]] = _size_lines()
"""Bytes of a whole chunk -> the line it begins with, its digits in lower and in upper case. Larger ones than deltas are
left out, and so are lengths that no chunk has without needless zeros."""


def one_whole_chunk(data: bytes, pieces: list[bytes]) -> bool:
    """Whether data in which a parser found these pieces of a body, and no fault, is one chunk and nothing else. What
    was left of an earlier chunk would be a piece too, from the first byte on.

    `whole_chunks` is this, or compiled, and then knows several chunks too, which in Python are left to the parser.
    """
    if len(pieces) != 1:
        return False
    (piece,) = pieces
    lines = SIZE_LINES.get(len(data))
    if lines is None or not data.startswith(lines):
        return False
    return piece == data[len(lines[0]) : -_CRLF_BYTES] and not data.startswith(piece)


whole_chunks: Final = one_whole_chunk if CORE is None else CORE.whole_chunks
