"""The headers of W3C Trace Context: reads those of a request, and makes ids for its spans."""

import random
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FORBIDDEN_VERSION: Final = "ff"
_FIRST_VERSION: Final = "00"
_MAX_STATE_CHARS: Final = 512
_SAMPLED: Final = 1


class ParentContext(NamedTuple):
    """The span of the caller."""

    trace_id: int
    span_id: int
    is_sampled: bool
    state: str
    """The value of `tracestate`; empty without one."""


def read_parent(headers: Mapping[bytes, bytes]) -> ParentContext | None:
    """Returns the span that a request belongs to; None without one, and for headers that are malformed."""
    header = headers.get(b"traceparent")
    if header is None or len(header) > _MAX_STATE_CHARS or not header.isascii():
        return None
    match = _TRACEPARENT.fullmatch(header.decode().strip())
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    is_known = version != _FORBIDDEN_VERSION and not (version == _FIRST_VERSION and more)
    if not is_known or not int(trace_id, 16) or not int(span_id, 16):
        return None
    state = headers.get(b"tracestate", b"")
    is_usable = len(state) <= _MAX_STATE_CHARS and state.isascii() and state.decode("ascii", "replace").isprintable()
    text = state.decode() if is_usable else ""
    return ParentContext(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & _SAMPLED), text)


def make_trace_id() -> str:
    """Returns a random id of 32 hexadecimal digits that is not zero."""
    return f"{random.getrandbits(128) or 1:032x}"


def make_span_id() -> int:
    """Returns a random id that is not zero."""
    return random.getrandbits(64) or 1
