"""Characters that are split over two deltas of a relayed stream."""

import json
from collections.abc import Sequence

import orjson
import pytest

from tests.unit.support.stream_checks.messages_order import read_frames
from tests.unit.support.translator_drivers import relay_to_end
from tests.upstream import anthropic
from translation.framing.sse import encode_data, encode_event
from translation.messages.relaying.relay import MessagesRelay
from translation.messages.relaying.reply_forms import build_message
from translation.representation.json_types import Json

KEYS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
BLOCKS: dict[str, Json] = {
    "text_delta": anthropic.text_block(),
    "thinking_delta": anthropic.thinking_block(),
    "input_json_delta": anthropic.call_block("f"),
}
FORMS: dict[str, str] = {
    "compact": '{"type":"content_block_delta","index":0,"delta":{"type":"%s","%s":%s}}',
    "with white space": '{"type": "content_block_delta", "index": 0, "delta": {"type": "%s", "%s": %s}}',
    "the delta before the index": '{"type": "content_block_delta", "delta": {"type": "%s", "%s": %s}, "index": 0}',
    "the index first": '{"index": 0, "type": "content_block_delta", "delta": {"type": "%s", "%s": %s}}',
}
PIECES: dict[str, tuple[list[str], list[str]]] = {
    # what the upstream sends, what the client gets
    "first in the block": (["\ud83d", "\ude00"], ["", "😀"]),
    "second in the block": (["a", "\ud83d", "\ude00"], ["a", "", "😀"]),
    "the second half after a piece of its form": (["a", "b\ud83d", "\ude00c", "d"], ["a", "b", "😀c", "d"]),
    "an empty piece between the halves": (["\ud83d", "", "\ude00"], ["", "", "😀"]),
    "two characters": (["\ud83d", "\ude00\ud83d", "\ude01", "é"], ["", "😀", "😁", "é"]),
    "a whole one": (["a", "😀"], ["a", "😀"]),
}


def build_frames(events: Sequence[Json]) -> bytes:
    return b"".join(encode_event(event["type"], orjson.dumps(event)) for event in events)


def write_deltas(form: str, kind: str, pieces: Sequence[str], *, is_named: bool) -> list[bytes]:
    payloads = [(FORMS[form] % (kind, KEYS[kind], json.dumps(piece))).encode() for piece in pieces]
    return [encode_event("content_block_delta", each) if is_named else encode_data(each) for each in payloads]


def write_stream(deltas: Sequence[bytes], kind: str, stop_reason: str = "end_turn") -> list[bytes]:
    start, *_, end = anthropic.block(0, BLOCKS[kind])
    return [build_frames([anthropic.opening(), start]), *deltas, build_frames([end, *anthropic.closing(stop_reason)])]


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["text_delta", "thinking_delta"])
@pytest.mark.parametrize(("pieces", "expected"), PIECES.values(), ids=PIECES)
def test_a_character_that_is_split_over_two_deltas_is_joined(
    pieces: list[str], expected: list[str], kind: str, form: str, is_named: bool
) -> None:
    relay = MessagesRelay(model=None)
    wire = relay_to_end(relay, *write_stream(write_deltas(form, kind, pieces, is_named=is_named), kind))
    assert relay.failed is None
    deltas = [event["delta"] for event in read_frames(wire) if event["type"] == "content_block_delta"]
    assert deltas == [{"type": kind, KEYS[kind]: piece} for piece in expected]
    assert build_message(wire)["content"][0][KEYS[kind]] == "".join(expected)


def test_a_character_of_an_input_is_joined() -> None:
    kind = "input_json_delta"
    deltas = write_deltas("compact", kind, ['{"a":"', "\ud83d", '\ude00"}'], is_named=True)
    relay = MessagesRelay(model=None)
    wire = relay_to_end(relay, *write_stream(deltas, kind, "tool_use"))
    assert relay.failed is None
    assert build_message(wire)["content"][0]["input"] == {"a": "😀"}


@pytest.mark.parametrize("pieces", [["\ud83d"], ["a", "\ud83d"], ["a", "b\ud83d", "c"]], ids=ascii)
def test_text_that_ends_within_a_character_is_garbled(pieces: list[str]) -> None:
    relay = MessagesRelay(model=None)
    wire = relay_to_end(
        relay, *write_stream(write_deltas("compact", "text_delta", pieces, is_named=True), "text_delta")
    )
    assert relay.failed is not None
    assert (relay.failed.code, relay.failed.message) == (
        "upstream_garbled",
        "the upstream's text ends within a character",
    )
    assert wire.count(b"event: error") == 1
    assert b"event: message_stop" not in wire


@pytest.mark.parametrize("pieces", [["\ud83d"], ["a", "\ud83d"]], ids=ascii)
def test_half_a_character_that_the_limit_cut_is_left_out(pieces: list[str]) -> None:
    relay = MessagesRelay(model=None)
    deltas = write_deltas("compact", "text_delta", pieces, is_named=True)
    wire = relay_to_end(relay, *write_stream(deltas, "text_delta", "max_tokens"))
    assert relay.failed is None
    assert build_message(wire)["content"] == [{"type": "text", "text": "".join(pieces[:-1])}]


@pytest.mark.parametrize("text", ["\ude00", "a\ud83db", "\ud83d\ud83d"], ids=ascii)
def test_half_a_character_within_a_text_is_garbled(text: str) -> None:
    relay = MessagesRelay(model=None)
    relay_to_end(relay, *write_stream(write_deltas("compact", "text_delta", [text], is_named=True), "text_delta"))
    assert relay.failed is not None
    assert relay.failed.code == "upstream_garbled"
