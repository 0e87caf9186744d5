"""Measures a JSON text before it is parsed: the number of its values and the depth of their nesting.

A parser holds the interpreter's lock from the first byte to the last, and needs 100 ns for each value: ten million
values, which are 30 MB of empty lists, would stop every stream for seconds.
"""

from itertools import accumulate
from typing import Final, NamedTuple

from translation.framing.reply_weight import SLICE_BYTES, StringCutter

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
    strings = StringCutter()
    for position in range(0, len(text), SLICE_BYTES):
        outside = strings.cut(text[position : position + SLICE_BYTES])
        separators = outside.translate(None, _OTHER_BYTES)
        values += len(separators) - separators.count(b"]") - separators.count(b"}")
        levels = list(accumulate(map(_STEPS.__getitem__, separators), initial=level))
        depth, level = max(depth, *levels), levels[-1]
    return JsonShape(values, depth)
