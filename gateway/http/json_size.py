"""Counts the values of a JSON text before it is parsed.

A parser holds the interpreter's lock from the first byte to the last, and needs 100 ns for each value: ten million
values, which are 30 MB of empty lists, would stop every stream for seconds.
"""

from typing import Final

_SLICE_BYTES: Final = 64 * 1024

_SEPARATORS: Final = b",[{"

_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in _SEPARATORS)


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether a JSON text has more than `limit` values: objects, lists, and what they contain, without keys.

    An empty object or list counts twice. For a text that is not JSON the result has no meaning.
    """
    if len(text) <= limit or count_separators(text, limit) < limit:
        return False
    count = 1
    in_string = False
    position = 0
    while position < len(text):
        end = _end_of_slice(text, position)
        piece = text[position:end].replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[1 if in_string else 0 :: 2])
        count += len(outside.translate(None, _OTHER_BYTES))
        if count > limit:
            return True
        in_string ^= len(parts) % 2 == 0
        position = end
    return False


def count_separators(text: bytes, limit: int) -> int:
    """Returns the number of commas and opening brackets in a text, those inside of its strings included.

    A JSON text has at most one more value. Beyond `limit` nothing more is counted. This takes less than a tenth of the
    time that telling strings apart takes.
    """
    count = 0
    for start in range(0, len(text), _SLICE_BYTES):
        count += len(text[start : start + _SLICE_BYTES].translate(None, _OTHER_BYTES))
        if count > limit:
            break
    return count


def _end_of_slice(text: bytes, start: int) -> int:
    """Returns the end of the slice that begins at `start`. It is not between a backslash and what that escapes."""
    end = start + _SLICE_BYTES
    backslashes = 0
    while start < end - backslashes <= len(text) and text[end - backslashes - 1] == 0x5C:
        backslashes += 1
    return end + backslashes % 2
