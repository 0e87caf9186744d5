"""Splits bytes into frames, for all line ends and every split."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.framing.sse import Frame, FrameDecoder


def frames_of(reads: list[bytes]) -> list[tuple[str | None, bytes]]:
    decoder = FrameDecoder()
    frames = [frame for read in reads for frame in decoder.feed(read)]
    return [(frame.event, frame.payload) for frame in [*frames, *decoder.finish()]]


CASES: dict[str, tuple[bytes, list[tuple[str | None, bytes]]]] = {
    "unnamed frames": (b'data: {"a":1}\n\ndata: [DONE]\n\n', [(None, b'{"a":1}'), (None, b"[DONE]")]),
    "named frames": (b"event: x\ndata: 1\n\nevent: y\ndata: 2\n\n", [("x", b"1"), ("y", b"2")]),
    "a name without data, then two lines of data": (b"event: x\n\nevent: y\ndata: 1\ndata: 2\n\n", [("y", b"1\n2")]),
    "named frames and others": (b"event: x\ndata: 1\n\n: 2\n\ndata: 3\n\n", [("x", b"1"), (None, b"3")]),
    "frames of one line and others": (b"data: 1\n\nevent: x\ndata: 2\n\n: 3\n\n", [(None, b"1"), ("x", b"2")]),
    "CRLF": (b"event: x\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", [("x", b"1"), (None, b"2")]),
    "lone CR": (b"event: x\rdata: 1\r\rdata: 2\r\r", [("x", b"1"), (None, b"2")]),
    "mixed line ends": (
        b"event: x\r\ndata: 1\n\ndata: 2\r\r\ndata: 3\n\r\n",
        [("x", b"1"), (None, b"2"), (None, b"3")],
    ),
    "a byte order mark": (b"\xef\xbb\xbfdata: 1\n\n", [(None, b"1")]),
    "comments and other fields are dropped": (b": hi\n\nid: 7\nretry: 3\ndata: 1\n\n: bye\n\n", [(None, b"1")]),
    "several data lines are one payload": (b"data: a\ndata: b\n\n", [(None, b"a\nb")]),
    "several data lines of a named frame": (b"event: e\ndata: a\ndata: b\n\n", [("e", b"a\nb")]),
    "no space after the colon": (b"event:x\ndata:1\n\n", [("x", b"1")]),
    "a field without a colon": (b"data\n\ndata: 1\n\n", [(None, b"1")]),
    "empty data": (b"data:\n\ndata: \n\nevent: a\ndata:\n\ndata: 1\n\n", [(None, b"1")]),
    "names of fields with other bytes": (
        b"data: 1\n\n\xef\xbb\xbfdata: 2\n\n data: 3\n\nDATA:4\n\nsdata: 5\n\n",
        [(None, b"1"), (None, b"2"), (None, b"3"), (None, b"4")],
    ),
    "the last blank line is missing": (b"data: 1\n\ndata: [DONE]", [(None, b"1"), (None, b"[DONE]")]),
    "extra blank lines": (b"\n\n\ndata: 1\n\n\n\ndata: 2\n\n", [(None, b"1"), (None, b"2")]),
    "nothing": (b"", []),
    "text in many bytes": ("data: 東京🚀\n\n".encode(), [(None, "東京🚀".encode())]),
}


@pytest.mark.parametrize(("wire", "expected"), CASES.values(), ids=CASES)
def test_bytes_become_frames(wire: bytes, expected: list[tuple[str | None, bytes]]) -> None:
    assert frames_of([wire]) == expected


@pytest.mark.parametrize(("wire", "expected"), CASES.values(), ids=CASES)
def test_bytes_may_be_split_into_any_reads(wire: bytes, expected: list[tuple[str | None, bytes]]) -> None:
    assert frames_of([wire[i : i + 1] for i in range(len(wire))]) == expected
    for cut in range(len(wire)):
        assert frames_of([wire[:cut], wire[cut:]]) == expected


@given(st.lists(st.integers(0, 60), max_size=8).map(sorted))
def test_any_cuts_give_the_same_frames(cuts: list[int]) -> None:
    wire = b"".join(case[0] for name, case in CASES.items() if "mark" not in name)[:60] + b"\n\n"
    edges = [0, *cuts, len(wire)]
    assert frames_of([wire[a:b] for a, b in pairwise(edges)]) == frames_of([wire])


@pytest.mark.parametrize(("wire", "expected"), CASES.values(), ids=CASES)
def test_reading_only_the_data_gives_the_same_payloads(wire: bytes, expected: list[tuple[str | None, bytes]]) -> None:
    for cut in range(len(wire) + 1):
        decoder = FrameDecoder()
        payloads = [payload for read in (wire[:cut], wire[cut:]) for payload in decoder.parse_payloads(read)]
        assert payloads + [frame.payload for frame in decoder.finish()] == [payload for _, payload in expected]


def test_single_frames_give_their_data_one_by_one() -> None:
    decoder = FrameDecoder()
    reads = [
        b"data: 1\n\n",
        b"data: 2\n\n",
        b"data: 3\r\n\r\n",
        b"event: x\ndata: 4\n\n",
        b"data: 5\n\ndata: ",
        b"6\n\n",
    ]
    assert [decoder.parse_payloads(read) for read in reads] == [[b"1"], [b"2"], [b"3"], [b"4"], [b"5"], [b"6"]]


@pytest.mark.parametrize(("wire", "expected"), CASES.values(), ids=CASES)
def test_a_read_of_exactly_one_frame_is_recognized_anywhere(
    wire: bytes, expected: list[tuple[str | None, bytes]]
) -> None:
    one = b"data: {}\n\n"
    for cut in range(len(wire) + 1):
        decoder, plain = FrameDecoder(), FrameDecoder()
        for read in (one, wire[:cut], wire[cut:], one):
            frames, between = plain.feed(read), plain.at_boundary
            payload = decoder.single_payload(read)
            assert (decoder.feed(read) if payload is None else [Frame(None, payload, read)]) == frames
            assert decoder.at_boundary is between
        assert decoder.finish() == plain.finish()


def test_one_frame_is_known_from_the_first_read_on() -> None:
    decoder = FrameDecoder()
    assert [decoder.single_payload(b"data: %d\n\n" % number) for number in (1, 2)] == [b"1", b"2"]
    for read in (b"data: 1\n\ndata: 2\n\n", b"data: 1\r\n\n", b"event: x\ndata: 1\n\n", b"data: 1\n", b": 1\n\n", b""):
        assert decoder.single_payload(read) is None
    assert decoder.feed(b"data: 3\n\ndata: ") == [Frame(None, b"3", b"data: 3\n\n")]
    assert decoder.single_payload(b"data: 4\n\n") is None


BEGINNINGS: dict[str, tuple[list[bytes], bool]] = {
    "nothing": ([], False),
    "a mark that may go on": ([b"\xef\xbb"], False),
    "a frame": ([b"data: 1\n\n"], True),
    "a frame, then nothing": ([b"data: 1\n\n", b""], True),
    "half a frame": ([b"data: 1\n\nda"], False),
    "half a frame, then nothing": ([b"data: 1\n\n", b"da", b""], False),
    "both halves": ([b"data: 1\n\nda", b"ta: 2\n\n"], True),
    "half a line end": ([b"data: 1\r\n\r"], False),
    "half a blank line": ([b"data: 1\n"], False),
}


@pytest.mark.parametrize(("reads", "between"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_the_decoder_knows_whether_the_next_read_begins_with_a_frame(reads: list[bytes], between: bool) -> None:
    decoder = FrameDecoder()
    for read in reads:
        decoder.parse_payloads(read)
    assert decoder.at_boundary is between


def test_a_frame_carries_itself_with_lf_line_ends() -> None:
    decoder = FrameDecoder()
    wire = b"event: x\r\ndata: 1\r\n\r\ndata:2\r\n\r\nevent: y\r\ndata: a\r\ndata: b\r\n\r\n"
    assert [frame.raw for frame in decoder.feed(wire)] == [
        b"event: x\ndata: 1\n\n",
        b"data: 2\n\n",
        b"event: y\ndata: a\ndata: b\n\n",
    ]


def test_a_frame_over_the_cap_is_a_violation_and_only_the_cap_is_buffered() -> None:
    decoder = FrameDecoder(max_frame_bytes=100)
    decoder.feed(b"data: " + b"x" * 80)
    with pytest.raises(ProtocolViolation, match="longer than 100 bytes"):
        decoder.feed(b"x" * 80)


def test_the_cap_counts_from_the_last_frame() -> None:
    decoder = FrameDecoder(max_frame_bytes=100)
    for _ in range(10):
        assert decoder.feed(b"data: " + b"x" * 60) == []
        assert decoder.feed(b"\n\n") == [Frame(None, b"x" * 60, b"data: " + b"x" * 60 + b"\n\n")]


def test_writing_and_reading_are_inverse() -> None:
    wire = sse.encode_event("response.created", b"{}") + sse.encode_data(b"1") + sse.DONE_FRAME
    assert frames_of([wire]) == [("response.created", b"{}"), (None, b"1"), (None, b"[DONE]")]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(("length", "is_refused"), [(20, False), (21, True), (22, True)])
def test_a_frame_is_refused_for_its_length_however_it_is_cut(length: int, is_refused: bool, line_end: bytes) -> None:
    frame = b"data: " + b"x" * (length - 6)
    stream = b"data: a" + line_end * 2 + frame + line_end * 2 + b"data: b" + line_end * 2
    for cut in range(len(stream) + 1):
        decoder = FrameDecoder(max_frame_bytes=20)
        payloads: list[bytes] = []
        try:
            for read in (stream[:cut], stream[cut:]):
                payloads += decoder.parse_payloads(read)
        except ProtocolViolation:
            assert is_refused, cut
        else:
            assert not is_refused, cut
            assert payloads == [b"a", frame[6:], b"b"]
