"""Splits bytes into lines of JSON, for every split."""

import pytest

from tests.unit.support.translator_drivers import every_split
from translation.errors import ProtocolViolation
from translation.framing.ndjson import LineDecoder

WIRE = b'\xef\xbb\xbf{"a":1}\n\r\n {"b":"\xc3\xbc"}\r\n{"c":3}\n'
LINES = [b'{"a":1}', '{"b":"ü"}'.encode(), b'{"c":3}']


def cut(*reads: bytes) -> list[bytes]:
    decoder = LineDecoder()
    lines = [line for read in reads for line in decoder.parse_payloads(read)]
    return lines + [frame.payload for frame in decoder.finish()]


def test_reads_may_split_a_stream_anywhere() -> None:
    for reads in every_split(WIRE):
        assert cut(*reads) == LINES


def test_a_last_line_without_a_line_break_counts() -> None:
    assert cut(b'{"a":1}\n{"b":', b"2}") == [b'{"a":1}', b'{"b":2}']


def test_empty_input_has_no_line() -> None:
    assert cut() == cut(b"") == cut(b"\n\n") == cut(b"\xef\xbb\xbf") == []


def test_an_endless_line_is_buffered_up_to_a_limit() -> None:
    decoder = LineDecoder(10)
    assert decoder.parse_payloads(b"0123456789") == []
    with pytest.raises(ProtocolViolation, match="longer than 10 bytes"):
        decoder.parse_payloads(b"0")


def test_the_buffer_limit_starts_again_after_each_line() -> None:
    decoder = LineDecoder(10)
    for _ in range(5):
        assert decoder.parse_payloads(b"12345") == []
        assert decoder.parse_payloads(b"\n") == [b"12345"]


@pytest.mark.parametrize(("length", "is_refused"), [(20, False), (21, True), (22, True)])
def test_a_line_is_refused_for_its_length_however_it_is_cut(length: int, is_refused: bool) -> None:
    stream = b"a\n" + b"x" * length + b"\nb\n"
    for cut in range(len(stream) + 1):
        decoder = LineDecoder(max_line_bytes=20)
        lines: list[bytes] = []
        try:
            for read in (stream[:cut], stream[cut:]):
                lines += decoder.parse_payloads(read)
        except ProtocolViolation:
            assert is_refused, cut
        else:
            assert not is_refused, cut
            assert lines == [b"a", b"x" * length, b"b"]
