"""Bounds on what one JSON text of an upstream may consist of, since each value of it costs time on the event loop.

Long texts are cheap. What costs is the number of values: a parser holds the interpreter's lock until it is through, and
decoders and encoders do something for each object. Values that describe tokens are many in honest replies too, but
nothing is done with them one by one.
"""

from typing import Any, Final

import orjson

from translation.errors import ProtocolViolation
from translation.exact_numbers import has_exact_numbers

LIGHT_BYTES: Final = 64 * 1024
"""Shorter texts are not examined."""

_LIGHT_VALUES: Final = 8 * 1024
"""Texts with no more commas and brackets are light, whatever is in them."""

_BYTES_PER_VALUE: Final = 48
_BYTES_PER_EXACT_VALUE: Final = 512
_BYTES_PER_KEY: Final = 256
_BYTES_PER_PART: Final = 2048
"""The bytes of the longest line for each value that one may have, for each value if long numbers have to be retained,
for each key, and for each object or list. So `max_line_mb` bounds them too: 349,525, 32,768, 65,536 and 8,192 for
16 MiB."""

_FEW_QUOTES: Final = 16 * 1024
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


def require_few_values(text: bytes, max_bytes: int) -> None:
    """Raises ProtocolViolation for a JSON text with more values or keys than a reply of up to `max_bytes` may have."""
    if len(text) <= LIGHT_BYTES:
        return
    _require_few_keys(text, max_bytes)
    _require_few(text, max(_LIGHT_VALUES, max_bytes // _BYTES_PER_VALUE), "JSON values", max_bytes)


def _require_few_keys(text: bytes, max_bytes: int) -> None:
    """Counts quotes before colons that are not escaped: each ends a key, or begins a text."""
    limit = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_KEY)
    keys = text.count(b'":') - text.count(b'\\":')
    if keys > limit and keys - _KEYS_PER_TOKEN * sum(map(text.count, _TOKEN_KEYS)) > limit:
        _refuse(limit, "JSON keys", max_bytes)


def _require_few(text: bytes, limit: int, what: str, max_bytes: int) -> None:
    """Counts the values of a text. Texts within it may have commas, too, but to find them takes longer."""
    if _count_marks(text) <= limit:
        return
    # Strings of a list have a comma between two quotes that are not escaped.
    if text.count(b'","') - text.count(b'\\","') > limit or _count_marks(_cut_strings(text)) > limit:
        _refuse(limit, what, max_bytes)


def require_few_parts(parsed: Any, max_bytes: int) -> None:
    """Raises ProtocolViolation for a parsed reply with more objects and lists than `max_bytes` may have."""
    limit = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_PART)
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
    if len(payload) <= LIGHT_BYTES or _count_marks(payload) <= _LIGHT_VALUES:
        return
    require_few_values(payload, max_bytes)
    if has_exact_numbers(payload):
        limit = max(_LIGHT_VALUES, max_bytes // _BYTES_PER_EXACT_VALUE)
        _require_few(payload, limit, "JSON values, of which some are long numbers,", max_bytes)
    try:
        parsed = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return
    if isinstance(parsed, dict | list):
        require_few_parts(parsed, max_bytes)


def is_light(payload: bytes, max_bytes: int) -> bool:
    """Whether `require_light` accepts a chunk."""
    try:
        require_light(payload, max_bytes)
    except ProtocolViolation:
        return False
    return True


def _count_marks(text: bytes) -> int:
    """Counts commas and opening brackets: a JSON text has no more values, except for one. Those within strings count
    too if there are many strings."""
    if text.count(b'"') <= _FEW_QUOTES:
        text = _cut_strings(text)
    return len(text.translate(None, _OTHER_BYTES))


def _cut_strings(text: bytes) -> bytes:
    return b"".join(text.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])


def _refuse(limit: int, what: str, max_bytes: int) -> None:
    raise ProtocolViolation(
        f"the upstream sent more than {limit} {what} at once; the operator can raise `max_line_mb` of this upstream, "
        f"which is {max_bytes / 1024 / 1024:g}"
    )
