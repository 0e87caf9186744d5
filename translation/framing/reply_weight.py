"""Bounds on what one JSON text of an upstream may consist of, since each value of it costs time on the event loop.

Long texts are cheap. What costs is the number of values: a parser holds the interpreter's lock until it is through, and
decoders and encoders do something for each object. Values that describe tokens are many in honest replies too, but
nothing is done with them one by one.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

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


class _Structure(NamedTuple):
    """What a JSON text consists of, at most: a text that is not JSON has fewer values."""

    values: int
    keys: int
    parts: int
    """Its objects and lists."""


def require_few_values(text: bytes, max_bytes: int) -> None:
    """Raises ProtocolViolation for a JSON text with more values or keys than a reply of up to `max_bytes` may have."""
    if len(text) > LIGHT_BYTES:
        _measure_structure(text, max_bytes)


def require_few_numbers(text: bytes, max_bytes: int) -> None:
    """Raises ProtocolViolation for lists of numbers, such as embeddings, with more than a reply of up to `max_bytes`
    may have, or with too many keys."""
    if len(text) > LIGHT_BYTES:
        _measure_structure(text, max_bytes, _BYTES_PER_NUMBER)


def _measure_structure(text: bytes, max_bytes: int, bytes_per_value: int = _BYTES_PER_VALUE) -> _Structure:
    """Returns what a text consists of. Raises ProtocolViolation for too many values or keys."""
    most_keys = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_KEY)
    most_values = max(_LIGHT_VALUES, max_bytes // bytes_per_value)
    values = keys = parts = 0
    for outside in iterate_outside_strings(text):
        marks = outside.translate(None, _OTHER_BYTES)
        values += len(marks)
        parts += len(marks) - marks.count(b",")
        keys += outside.count(b":")
        if values > most_values:
            _refuse(most_values, "JSON values", max_bytes)
    if keys > most_keys and keys - _KEYS_PER_TOKEN * sum(map(text.count, _TOKEN_KEYS)) > most_keys:
        _refuse(most_keys, "JSON keys", max_bytes)
    return _Structure(values, keys, parts)


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


_SLICE_BYTES: Final = 64 * 1024
"""Slices of this size fit into a processor's cache."""


def iterate_outside_strings(text: bytes) -> Iterator[bytes]:
    """Yields what a JSON text has outside of its strings, in pieces: its values and its nesting.

    It takes 3 ms for each megabyte of nothing but escaped quotes, and a third of that for other texts. What it yields
    of a text that is not JSON has no meaning.
    """
    in_string = False
    position = 0
    while position < len(text):
        end = _end_of_slice(text, position)
        piece = text[position:end]
        if b"\\" in piece:
            piece = piece.replace(rb"\\", b"__").replace(rb"\"", b"__")  # by as many bytes, which is faster
        parts = piece.split(b'"')
        yield b"".join(parts[1 if in_string else 0 :: 2])
        in_string ^= len(parts) % 2 == 0
        position = end


def _end_of_slice(text: bytes, start: int) -> int:
    """Returns the end of the slice that begins at `start`. It is not between a backslash and what that escapes."""
    end = start + _SLICE_BYTES
    backslashes = 0
    while start < end - backslashes <= len(text) and text[end - backslashes - 1] == 0x5C:
        backslashes += 1
    return end + backslashes % 2
