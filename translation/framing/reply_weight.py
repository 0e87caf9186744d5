"""Bounds on what one JSON text of an upstream may consist of, since each value of it costs time on the event loop.

Long texts are cheap. What costs is the number of values: a parser holds the interpreter's lock until it is through, and
decoders and encoders do something for each object. Values that describe tokens are many in honest replies too, but
nothing is done with them one by one.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from translation.errors import ProtocolViolation
from translation.exact_numbers import has_exact_numbers

LIGHT_BYTES: Final = 64 * 1024
"""Shorter texts are not examined."""

_LIGHT_VALUES: Final = 8 * 1024
"""Texts with no more commas and brackets are light, within strings or not."""

_BYTES_PER_VALUE: Final = 48
_BYTES_PER_EXACT_VALUE: Final = 512
_BYTES_PER_NUMBER: Final = 10
_BYTES_PER_KEY: Final = 256
_BYTES_PER_PART: Final = 2048
"""The bytes of the longest line for each value that one may have, for each value if long numbers have to be retained,
for each number of embeddings, for each key, and for each object or list. So `max_line_mb` bounds them too: 349,525,
32,768, 1,677,721, 65,536 and 8,192 for 16 MiB."""

_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in b",[{")

_KEYS_PER_TOKEN: Final = 4
_TOKEN_KEYS: Final = (b'"logprob":', b'"logprob" :', b'"logProbability":', b'"logProbability" :')
"""A key that each description of a token has. Its keys are not counted: they are the same each time, and parsers are
faster with them."""

_UNCOUNTED_KEYS: Final = frozenset(
    {
        "bytes",
        "embedding",
        "logprobs",
        "logprobsResult",
        "prompt_logprobs",
        "prompt_token_ids",
        "token_ids",
        "tools",
        "top_logprobs",
    }
)
"""Keys of values that describe tokens, and of tools that an upstream repeats from the request."""


class Structure:
    """What a JSON text consists of, at most: a text that is not JSON has fewer values. It is counted piece by piece."""

    __slots__ = ("_strings", "keys", "parts", "values")

    def __init__(self) -> None:
        self.values = 0
        self.keys = 0
        self.parts = 0
        """Its objects and lists."""
        self._strings = StringCutter()

    def add(self, piece: bytes) -> None:
        """Adds the next piece of the text."""
        outside = self._strings.cut(piece)
        marks = outside.translate(None, _OTHER_BYTES)
        self.values += len(marks)
        self.parts += len(marks) - marks.count(b",")
        self.keys += outside.count(b":")

    def is_light(self, max_bytes: int) -> bool:
        """Whether a text with this structure is light whatever its values are, as `require_light` finds out."""
        most_values = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_EXACT_VALUE)
        most_keys = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_KEY)
        return self.values <= most_values and self.keys <= most_keys and self.parts <= _find_most_parts(max_bytes)


def require_few_values(text: bytes, max_bytes: int) -> None:
    """Raises ProtocolViolation for a JSON text with more values or keys than a reply of up to `max_bytes` may have."""
    if len(text) > LIGHT_BYTES:
        _measure_structure(text, max_bytes)


def require_few_numbers(text: bytes, max_bytes: int) -> None:
    """Raises ProtocolViolation for lists of numbers, such as embeddings, with more than a reply of up to `max_bytes`
    may have, or with too many keys."""
    if len(text) > LIGHT_BYTES:
        _measure_structure(text, max_bytes, _BYTES_PER_NUMBER)


def _measure_structure(text: bytes, max_bytes: int, bytes_per_value: int = _BYTES_PER_VALUE) -> Structure:
    """Returns what a text consists of. Raises ProtocolViolation for too many values or keys."""
    most_keys = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_KEY)
    most_values = max(_LIGHT_VALUES, max_bytes // bytes_per_value)
    structure = Structure()
    for position in range(0, len(text), SLICE_BYTES):
        structure.add(text[position : position + SLICE_BYTES])
        if structure.values > most_values:
            _refuse(most_values, "JSON values", max_bytes)
    keys = structure.keys
    if keys > most_keys and keys - _KEYS_PER_TOKEN * sum(map(text.count, _TOKEN_KEYS)) > most_keys:
        _refuse(most_keys, "JSON keys", max_bytes)
    return structure


def require_few_parts(parsed: Any, max_bytes: int) -> None:
    """Raises ProtocolViolation for a parsed reply with more objects and lists than `max_bytes` may have."""
    limit = _find_most_parts(max_bytes)
    parts = 0
    pending = [parsed]
    while pending:
        value = pending.pop()
        parts += 1
        if type(value) is dict:
            pending += [
                inner for key, inner in value.items() if type(inner) in (dict, list) and key not in _UNCOUNTED_KEYS
            ]
        else:
            pending += [inner for inner in value if type(inner) in (dict, list)]
        if parts + len(pending) > limit:
            _refuse(limit, "JSON objects and lists", max_bytes)


class ReadStructure:
    """The structure of a chunk that comes in many reads, counted with each of them: to count 15 MB at once would hold
    up the event loop for 50 ms."""

    __slots__ = ("_read_bytes", "_structure")

    def __init__(self, reads: Iterable[bytes]) -> None:
        """`reads` are the first reads of the chunk, with what its framing has before it."""
        self._structure = Structure()
        self._read_bytes = 0
        for read in reads:
            self.add(read)

    def add(self, read: bytes) -> None:
        self._structure.add(read)
        self._read_bytes += len(read)

    def proves_light(self, framed: bytes, payload: bytes, max_bytes: int) -> bool:
        """Whether a chunk is certainly light, which is `payload`, and was read as `framed`, the framing included."""
        start = len(framed) - len(payload)
        if b'"' in framed[:start] or b"\\" in framed[:start] or not framed.endswith(payload):
            return False  # the framing may have looked like a string
        self._structure.add(framed[self._read_bytes :])
        return self._structure.is_light(max_bytes)


def require_light(payload: bytes, max_bytes: int) -> None:
    """Raises ProtocolViolation for one chunk of a stream that would hold up the event loop.

    A chunk that is not JSON passes: whoever parses it reports that.
    """
    if len(payload) <= LIGHT_BYTES or len(payload.translate(None, _OTHER_BYTES)) <= _LIGHT_VALUES:
        return
    structure = _measure_structure(payload, max_bytes)
    most_exact = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_EXACT_VALUE)
    if structure.values > most_exact and has_exact_numbers(payload):
        _refuse(most_exact, "JSON values, of which some are long numbers,", max_bytes)
    if structure.parts <= _find_most_parts(max_bytes):
        return
    try:
        parsed = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return
    require_few_parts(parsed, max_bytes)


def is_light(payload: bytes, max_bytes: int) -> bool:
    """Whether `require_light` accepts a chunk."""
    try:
        require_light(payload, max_bytes)
    except ProtocolViolation:
        return False
    return True


def _find_most_parts(max_bytes: int) -> int:
    return max(_LIGHT_VALUES, max_bytes // _BYTES_PER_PART)


def _refuse(limit: int, what: str, max_bytes: int) -> None:
    raise ProtocolViolation(f"the upstream sent more than {limit} {what} at once; {describe_remedy(max_bytes)}")


def describe_remedy(max_bytes: int) -> str:
    """Says what the operator can do about a reply that is heavier than an upstream's limit."""
    return f"the operator can raise `max_line_mb` of this upstream, which is {max_bytes / 1024 / 1024:g}"


SLICE_BYTES: Final = 64 * 1024
"""Slices of this size fit into a processor's cache."""


class StringCutter:
    """Cuts the strings out of a JSON text that comes in pieces, so that its values and its nesting are left.

    It takes 3 ms for each megabyte of nothing but escaped quotes, and a third of that for other texts. What it leaves
    of a text that is not JSON has no meaning. Pieces of `SLICE_BYTES` are fast.
    """

    __slots__ = ("_in_string", "_rest")

    def __init__(self) -> None:
        self._in_string = False
        self._rest = b""
        """The backslash at the end of the last piece, if it escapes what follows."""

    def cut(self, piece: bytes) -> bytes:
        """Returns what the next piece has outside of strings."""
        if self._rest:
            piece, self._rest = self._rest + piece, b""
        if b"\\" in piece:
            piece = piece.replace(rb"\\", b"__").replace(rb"\"", b"__")  # by as many bytes, which is faster
            if piece.endswith(b"\\"):
                piece, self._rest = piece[:-1], b"\\"
        parts = piece.split(b'"')
        outside = b"".join(parts[1 if self._in_string else 0 :: 2])
        self._in_string ^= len(parts) % 2 == 0
        return outside
