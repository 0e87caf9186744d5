"""gateway/tracing/trace_context.py: the headers of W3C Trace Context."""

import pytest

from gateway.tracing.trace_context import (
    ParentContext,
    make_span_id,
    make_trace_id,
    read_parent,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f" 00-{TRACE}-{SPAN}-01 ", True),
        (f"01-{TRACE}-{SPAN}-01-what-a-later-version-adds", True),
    ],
)
def test_a_context_is_read(header: str, is_sampled: bool) -> None:
    parent = read_parent({b"traceparent": header.encode()})
    assert parent == ParentContext(int(TRACE, 16), int(SPAN, 16), is_sampled, "")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"nothing",
        f"00-{TRACE}-{SPAN}".encode(),
        f"00-{TRACE}-{SPAN}-01-more".encode(),
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{TRACE[:-1]}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}-1".encode(),
        f"00-{TRACE}-{SPAN}-0é".encode("latin-1"),
        f"01-{TRACE}-{SPAN}-01-{'x' * 600}".encode(),
    ],
)
def test_a_malformed_context_is_ignored(header: bytes) -> None:
    assert read_parent({b"traceparent": header, b"tracestate": b"a=b"}) is None


@pytest.mark.parametrize(
    ("state", "kept"), [(b"a=b,c=d", "a=b,c=d"), (b"a=\xff", ""), (b"a=b\x00", ""), (b"a=" + b"x" * 600, "")]
)
def test_a_state_that_may_be_sent_on_is_kept(state: bytes, kept: str) -> None:
    parent = read_parent({b"traceparent": f"00-{TRACE}-{SPAN}-01".encode(), b"tracestate": state})
    assert parent is not None
    assert parent.state == kept


def test_ids_are_those_of_a_context() -> None:
    header = f"00-{make_trace_id()}-{make_span_id():016x}-01"
    parent = read_parent({b"traceparent": header.encode()})
    assert parent is not None
    assert f"{parent.trace_id:032x}" in header
    assert read_parent({}) is None
