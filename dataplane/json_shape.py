"""Measures a JSON text before it is parsed: the number of its values and the depth of their nesting.

A parser holds the interpreter's lock from the first byte to the last, and needs 100 ns for each value: ten million
values, which are 30 MB of empty lists, would stop every stream for seconds.
"""

from itertools import accumulate
from typing import Final, NamedTuple

_SLICE_BYTES: Final = 64 * 1024

_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}
"""Maps each byte that separates values to the change of the nesting level behind it."""

_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in _STEPS)


class JsonShape(NamedTuple):
    """The number of values of a JSON text, and the number of objects and lists around its deepest value.

    Values are objects, lists, and what they contain, without keys. An empty object or list counts twice.
    """

    values: int
    depth: int


def measure_json(text: bytes) -> JsonShape:
    """Returns the shape of a JSON text. For a text that is not JSON it has no meaning."""
    values, depth, level = 1, 0, 0
    in_string = False
    position = 0
    while position < len(text):
        end = _end_of_slice(text, position)
        piece = text[position:end].replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.split(b'"')
        separators = b"".join(parts[1 if in_string else 0 :: 2]).translate(None, _OTHER_BYTES)
        values += len(separators) - separators.count(b"]") - separators.count(b"}")
        levels = list(accumulate(map(_STEPS.__getitem__, separators), initial=level))
        depth, level = max(depth, *levels), levels[-1]
        in_string ^= len(parts) % 2 == 0
        position = end
    return JsonShape(values, depth)


def _end_of_slice(text: bytes, start: int) -> int:
    """Returns the end of the slice that begins at `start`. It is not between a backslash and what that escapes."""
    end = start + _SLICE_BYTES
    backslashes = 0
    while start < end - backslashes <= len(text) and text[end - backslashes - 1] == 0x5C:
        backslashes += 1
    return end + backslashes % 2
