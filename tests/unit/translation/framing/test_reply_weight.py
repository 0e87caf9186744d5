"""Long texts of few values are light, and so are descriptions of tokens. Many values, keys or objects are refused."""

import time

import orjson
import pytest

from tests.unit.support.translator_drivers import every_split
from translation.errors import ProtocolViolation
from translation.framing.ndjson import LineDecoder
from translation.framing.reply_weight import (
    LIGHT_BYTES,
    is_light,
    require_few_numbers,
    require_few_values,
    require_light,
)
from translation.framing.sse import FrameDecoder

MAX_BYTES = 16 * 1024 * 1024


def listed(value: bytes, count: int) -> bytes:
    return b"[" + b",".join([value] * count) + b"]"


OTHER = b'{"token":" abc","logprob":-0.51234567,"bytes":[32,97,98,99]}'
TOKEN = OTHER[:-1] + b',"top_logprobs":' + listed(OTHER, 20) + b"}"

LIGHT = {
    "a text with commas": b'["' + b"a, [b] {c} " * 100_000 + b'"]',
    "a text with quotes and commas": b'["' + b'a\\", [b] {c} ' * 100_000 + b'"]',
    "a longer text with quotes and commas": b'["' + b'a\\", [b] {c} ' * 200_000 + b'"]',
    "many texts with commas": listed(b'"a,b,c,[d]"', 20_000),
    "texts that end with a backslash": listed(rb'"a,\\"', 20_000),
    "numbers": listed(b"1", 300_000),
    "keys": b"{" + b",".join(b'"k%d":1' % number for number in range(60_000)) + b"}",
    "objects": listed(b'{"text":"0123456789"}', 8_000),
    "descriptions of tokens": b'{"logprobs":' + listed(b'{"token":"a","logprob":-1,"bytes":[97]}', 60_000) + b"}",
    "2,000 tokens with 20 others each": b'{"logprobs":' + listed(TOKEN, 2_000) + b"}",
    "tools": b'{"tools":' + listed(b'{"type":"x","a":[1]}', 20_000) + b"}",
    "one number": b"1" + b" " * LIGHT_BYTES + b"," * 9_000,
    "no JSON": b"[" * 10_000 + b"x" * LIGHT_BYTES,
    "no object": b'"' + b"\\u002c,[" * 20_000 + b'"',
    "only a text": b'"' + b'a\\", ' * 20_000 + b'"',
    "long numbers": b'{"input":{"a":' + listed(b"12345678901234567890", 30_000) + b"}}",
}

HEAVY = {
    "numbers": (listed(b"1", 400_000), "349525 JSON values"),
    "texts": (listed(b'"a"', 400_000), "349525 JSON values"),
    "texts with spaces": (listed(b'"a" ', 400_000), "349525 JSON values"),
    "keys": (b"{" + b",".join(b'"k%d":1' % number for number in range(70_000)) + b"}", "65536 JSON keys"),
    "objects": (listed(b'{"text":"0123456789"}', 9_000), "8192 JSON objects and lists"),
    "lists": (listed(b"[]", 90_000), "8192 JSON objects and lists"),
    "objects in objects": (b'{"a":' + listed(b'{"b":{"c":"0123456"}}', 4_500) + b"}", "8192 JSON objects and lists"),
    "long numbers": (
        b'{"input":{"a":' + listed(b"12345678901234567890", 40_000) + b"}}",
        "32768 JSON values, of which some are long numbers",
    ),
}


@pytest.mark.parametrize("text", LIGHT.values(), ids=LIGHT)
def test_what_honest_replies_have_is_light(text: bytes) -> None:
    require_light(text, MAX_BYTES)
    assert is_light(text, MAX_BYTES)
    assert FrameDecoder(MAX_BYTES).parse_payloads(b"data: " + text + b"\n\n") == [text]


@pytest.mark.parametrize(("text", "words"), HEAVY.values(), ids=HEAVY)
def test_what_would_hold_up_others_is_refused_by_name(text: bytes, words: str) -> None:
    with pytest.raises(ProtocolViolation, match=words) as refusal:
        require_light(text, MAX_BYTES)
    assert "`max_line_mb`" in str(refusal.value)
    assert not is_light(text, MAX_BYTES)


def test_the_longest_line_decides_how_heavy_a_reply_may_be() -> None:
    text = listed(b"1", 400_000)
    require_few_values(text, 2 * MAX_BYTES)
    with pytest.raises(ProtocolViolation):
        require_few_values(text, MAX_BYTES)
    require_few_values(b"," * LIGHT_BYTES, 1)


def test_embeddings_may_have_more_numbers_than_other_replies() -> None:
    require_few_numbers(listed(b"0.12345678", 1_600_000), MAX_BYTES)
    with pytest.raises(ProtocolViolation, match=r"1677721 JSON values at once.*`max_line_mb`"):
        require_few_numbers(listed(b"1", 1_700_000), MAX_BYTES)
    require_few_numbers(b"," * LIGHT_BYTES, 1)


ESCAPED: dict[str, bytes] = {
    "quotes with commas": b'\\",',
    "quotes with brackets": b'\\"[{',
    "backslashes": rb"\\,",
    "quotes with colons": b'\\":,',
}


@pytest.mark.parametrize("content", ESCAPED.values(), ids=ESCAPED)
def test_a_text_of_15_mb_is_weighed_in_less_time_than_it_takes_to_write_it_three_times(content: bytes) -> None:
    text = b'"' + content * (15 * 1024 * 1024 // len(content)) + b'"'
    parsed = orjson.loads(text)
    ratios: list[float] = []
    while len(ratios) < 5 and min(ratios, default=3) >= 3:
        started = time.thread_time()
        require_light(text, MAX_BYTES)
        weighed = time.thread_time()
        orjson.dumps(parsed)
        ratios.append((weighed - started) / (time.thread_time() - weighed))
    assert min(ratios) < 3, ratios


HEAVY_TEXT = HEAVY["objects"][0]


def test_a_heavy_chunk_is_refused_however_it_arrives() -> None:
    for middle in (1, 1_000, len(HEAVY_TEXT) // 2):
        for decoder, wire in (
            (FrameDecoder(MAX_BYTES), b"data: " + HEAVY_TEXT + b"\n\n"),
            (FrameDecoder(MAX_BYTES), b"event: x\r\ndata: " + HEAVY_TEXT + b"\r\n\r\n"),
            (LineDecoder(MAX_BYTES), HEAVY_TEXT + b"\n"),
        ):
            decoder.parse_payloads(wire[:middle])
            with pytest.raises(ProtocolViolation):
                decoder.parse_payloads(wire[middle:])


def test_long_lines_that_are_light_are_returned() -> None:
    line = b'"' + b"x" * LIGHT_BYTES + b'"'
    assert LineDecoder(MAX_BYTES).parse_payloads(line + b"\n") == [line]


def test_a_heavy_end_without_a_delimiter_counts_as_cut_off() -> None:
    frames, lines = FrameDecoder(MAX_BYTES), LineDecoder(MAX_BYTES)
    frames.parse_payloads(b"data: " + HEAVY_TEXT)
    lines.parse_payloads(HEAVY_TEXT)
    assert frames.finish() == lines.finish() == []


def test_the_gateways_own_frames_may_be_heavy() -> None:
    own = FrameDecoder(MAX_BYTES, is_own=True)
    assert own.parse_payloads(b"data: " + HEAVY_TEXT + b"\n\ndata: " + HEAVY_TEXT) == [HEAVY_TEXT]
    assert [frame.payload for frame in own.finish()] == [HEAVY_TEXT]


def test_frames_are_the_same_however_they_are_split() -> None:
    for reads in every_split(b'data: {"a":1}\n\n'):
        decoder = FrameDecoder(MAX_BYTES)
        assert [payload for read in reads for payload in decoder.parse_payloads(read)] == [b'{"a":1}']


FRAMINGS: dict[str, tuple[type[FrameDecoder] | type[LineDecoder], bytes, bytes]] = {
    "data": (FrameDecoder, b"data: ", b"\n\n"),
    "an event": (FrameDecoder, b"event: x\r\ndata: ", b"\r\n\r\n"),
    "a quote in the event": (FrameDecoder, b'event: a"b\ndata: ', b"\n\n"),
    "a comment with a quote": (FrameDecoder, b': "\ndata: ', b"\n\n"),
    "a backslash before it": (FrameDecoder, b"id: a\\\ndata: ", b"\n\n"),
    "a line after it": (FrameDecoder, b"data: ", b"\nid: 1\n\n"),
    "a line": (LineDecoder, b"", b"\n"),
    "a line with spaces": (LineDecoder, b"  ", b" \r\n"),
    "a line after a blank one": (LineDecoder, b" " * 2 * LIGHT_BYTES + b"\n", b"\n"),
}


def parse_in_reads(framing: str, text: bytes, size: int) -> list[bytes]:
    make, before, after = FRAMINGS[framing]
    decoder, wire = make(MAX_BYTES), before + text + after
    return [payload for at in range(0, len(wire), size) for payload in decoder.parse_payloads(wire[at : at + size])]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("text", LIGHT.values(), ids=LIGHT)
def test_what_is_light_is_light_in_many_reads(text: bytes, framing: str) -> None:
    assert parse_in_reads(framing, text, LIGHT_BYTES + 1) == [text]


@pytest.mark.parametrize("size", [1_001, 7_000])
def test_an_escape_may_be_cut_by_the_end_of_a_read(size: int) -> None:
    for name in ("texts that end with a backslash", "only a text", "no object"):
        assert parse_in_reads("data", LIGHT[name], size) == [LIGHT[name]]
    escaped = b'{"a":"' + rb"\\" * 2 * LIGHT_BYTES + b'",' + HEAVY_TEXT[1:-1] + b"}"
    with pytest.raises(ProtocolViolation):
        parse_in_reads("data", escaped.replace(b'",{', b'","b":[{', 1)[:-1] + b"]}", size)


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize(("text", "words"), HEAVY.values(), ids=HEAVY)
def test_what_is_heavy_is_refused_in_many_reads(text: bytes, words: str, framing: str) -> None:
    with pytest.raises(ProtocolViolation, match=words):
        parse_in_reads(framing, text, LIGHT_BYTES + 1)


def test_a_chunk_beside_a_long_one_is_weighed_by_itself() -> None:
    light = b'["' + b"a" * 2 * LIGHT_BYTES + b'"]'
    wire = b"data: " + light + b"\n\ndata: " + HEAVY_TEXT + b"\n\n"
    decoder = FrameDecoder(MAX_BYTES)
    assert decoder.parse_payloads(wire[:LIGHT_BYTES]) == decoder.parse_payloads(wire[LIGHT_BYTES : len(light)]) == []
    with pytest.raises(ProtocolViolation, match="objects"):
        decoder.parse_payloads(wire[len(light) :])


@pytest.mark.parametrize("framing", ["data", "an event", "a line"])
@pytest.mark.parametrize("content", ESCAPED.values(), ids=ESCAPED)
def test_the_last_read_of_a_long_chunk_takes_less_time_than_those_before_it(content: bytes, framing: str) -> None:
    make, before, after = FRAMINGS[framing]
    wire = before + b'"' + content * (15 * 1024 * 1024 // len(content)) + b'"' + after
    reads = [wire[at : at + 256 * 1024] for at in range(0, len(wire), 256 * 1024)]
    shares: list[float] = []
    while len(shares) < 5 and min(shares, default=1) >= 0.75:
        decoder = make(MAX_BYTES)
        started = time.thread_time()
        for read in reads[:-1]:
            assert decoder.parse_payloads(read) == []
        before_last = time.thread_time()
        assert len(decoder.parse_payloads(reads[-1])) == 1
        ended = time.thread_time()
        shares.append((ended - before_last) / (ended - started))
    assert min(shares) < 0.75, shares
