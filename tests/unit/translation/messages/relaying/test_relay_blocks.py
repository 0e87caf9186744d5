"""Deltas of a relayed stream and the blocks that they are for."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import orjson
import pytest

from tests.unit.support.translator_drivers import counting_ids, decode, relay_to_end
from tests.upstream import anthropic
from translation.errors import ProtocolViolation
from translation.framing.sse import encode_data, encode_event
from translation.messages.relaying.relay import MessagesRelay
from translation.messages.relaying.reply_forms import build_message
from translation.messages.upstream.decode import AnthropicDecoder
from translation.representation.json_types import Json

MESSAGE = anthropic.opening()

BLOCKS: dict[str, Json] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "tool_use": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    "server_tool_use": {"type": "server_tool_use", "id": "s", "name": "web_fetch", "input": {}},
    "of_tomorrow": {"type": "of_tomorrow"},
}
DELTAS: dict[str, Json] = {
    "text_delta": {"type": "text_delta", "text": "a"},
    "citations_delta": {"type": "citations_delta", "citation": {"type": "char_location"}},
    "thinking_delta": {"type": "thinking_delta", "thinking": "a"},
    "signature_delta": {"type": "signature_delta", "signature": "a"},
    "input_json_delta": {"type": "input_json_delta", "partial_json": "{}"},
    "delta_of_tomorrow": {"type": "delta_of_tomorrow"},
}
FITTING = {
    *(("text", "text_delta"), ("text", "citations_delta")),
    *(("thinking", "thinking_delta"), ("thinking", "signature_delta")),
    ("tool_use", "input_json_delta"),
    *(("server_tool_use", delta) for delta in DELTAS),
    *(("of_tomorrow", delta) for delta in DELTAS),
    *((block, "delta_of_tomorrow") for block in BLOCKS),
}


def begin(block: Any, index: Any = 0) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def extend(delta: Any, index: Any = 0) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: Any = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def encode(events: Sequence[Json], *, is_named: bool) -> list[bytes]:
    payloads = [(event["type"], orjson.dumps(event)) for event in events]
    return [encode_event(*each) if is_named else encode_data(each[1]) for each in payloads]


def is_decodable(events: Sequence[Json]) -> bool:
    decoder = AnthropicDecoder(counting_ids())
    try:
        for event in events:
            decoder.feed(event)
    except ProtocolViolation:
        return False
    return True


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize(("block", "delta"), list(product(BLOCKS, DELTAS)))
def test_a_delta_has_a_type_of_its_block(block: str, delta: str, is_named: bool) -> None:
    events = [MESSAGE, begin(BLOCKS[block]), extend(DELTAS[delta])]
    relay = MessagesRelay(model=None)
    wire = encode(events, is_named=is_named)
    sent = relay.feed(b"".join(wire))
    assert is_decodable(events) is ((block, delta) in FITTING)
    if (block, delta) in FITTING:
        assert relay.failed is None
        assert sent == b"".join(encode(events, is_named=True))
        assert build_message(sent)["content"][0]["type"] == block
        return
    assert relay.failed is not None
    assert relay.failed.code == "upstream_garbled"
    assert sent == b"".join(encode(events[:-1], is_named=True))
    assert not relay.has_content
    with pytest.raises(ProtocolViolation):
        build_message(b"".join(wire))


TEXT, THINKING = BLOCKS["text"], BLOCKS["thinking"]
A, HM = DELTAS["text_delta"], DELTAS["thinking_delta"]
MISPLACED: dict[str, list[Json]] = {
    "a delta of a later block": [begin(TEXT), extend(A), extend(A, 7)],
    "a delta of an earlier block": [begin(TEXT, 1), extend(A, 0)],
    "a delta of a block that has ended": [begin(TEXT), extend(A), begin(TEXT, 1), stop(), extend(A)],
    "a delta after others of its form, whose block has ended": [
        begin(TEXT),
        begin(TEXT, 1),
        extend(A),
        stop(),
        extend(A),
    ],
    "a delta whose index is a text": [begin(TEXT), extend(A, "0")],
    "a delta whose index is a list": [begin(TEXT), extend(A, [])],
    "a delta whose index is a number of another form": [begin(TEXT), extend(A), extend(A, 0.0)],
    "a delta without an index": [begin(TEXT), {"type": "content_block_delta", "delta": A}],
    "a delta that is a text": [begin(TEXT), extend("a")],
    "a delta that is null": [begin(TEXT), extend(None)],
    "no delta": [begin(TEXT), {"type": "content_block_delta", "index": 0}],
    "thinking in a text that has begun": [begin(TEXT), extend(A), extend(A), extend(HM)],
    "a text in the thinking beside it": [begin(TEXT), begin(THINKING, 1), extend(A), extend(HM, 1), extend(A, 1)],
    "an end of another block": [begin(TEXT), stop(1)],
    "an end without an index": [begin(TEXT), {"type": "content_block_stop"}],
    "a beginning without an index": [{"type": "content_block_start", "content_block": TEXT}],
    "a beginning whose index is a text": [begin(TEXT, "0")],
    "a beginning without a block": [{"type": "content_block_start", "index": 0}],
    "a beginning whose block is null": [begin(None)],
    "a beginning whose block has no type": [begin({"text": ""})],
}


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("events", MISPLACED.values(), ids=MISPLACED)
def test_an_event_of_no_open_block_ends_the_stream_as_failed(events: list[Json], is_named: bool) -> None:
    *before, last = encode([MESSAGE, *events], is_named=is_named)
    relay = MessagesRelay(model=None)
    relay.feed(b"".join(before))
    assert relay.failed is None
    sent = relay.feed(last) + relay.conclude()
    assert relay.failed is not None
    assert relay.failed.code == "upstream_garbled"
    assert last not in sent
    assert sent.count(b"event: error") == relay.has_content


def test_a_second_end_of_a_block_ends_nothing_else() -> None:
    frames = encode([MESSAGE, begin(TEXT), stop(), begin(TEXT, 1), stop(), extend(A, 1), stop(1)], is_named=True)
    relay = MessagesRelay(model=None)
    assert relay.feed(b"".join(frames)).endswith(b"".join(frames[1:]))
    assert relay.failed is None


FORMS: dict[str, bytes] = {
    "compact": b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":"a"}}',
    "with white space": b'{ "type" : "content_block_delta" , "index": %d, "delta": { "type": "%b", "%b": "a" } }',
    "the index first": b'{"index":%d,"type":"content_block_delta","delta":{"type":"%b","%b":"a"}}',
    "more keys": b'{"type":"content_block_delta","index":%d,"usage":null,"delta":{"type":"%b","%b":"a"}}',
}
LATE_FORMS: dict[str, bytes] = {
    "the text first": b'{"type":"content_block_delta","index":%d,"delta":{"%b":"a","type":"%b"}}',
    "the delta first": b'{"delta":{"%b":"a","type":"%b"},"type":"content_block_delta","index":%d}',
}


def write_delta(form: str, index: int, kind: str, key: str) -> bytes:
    if form in FORMS:
        payload = FORMS[form] % (index, kind.encode(), key.encode())
    elif form == "the text first":
        payload = LATE_FORMS[form] % (index, key.encode(), kind.encode())
    else:
        payload = LATE_FORMS[form] % (key.encode(), kind.encode(), index)
    return encode_event("content_block_delta", payload)


@pytest.mark.parametrize("form", [*FORMS, *LATE_FORMS])
def test_deltas_are_told_apart_in_every_form_of_their_json(form: str) -> None:
    beginning = b"".join(encode([MESSAGE, begin(TEXT, 1), begin(THINKING, 11)], is_named=True))
    text = write_delta(form, 1, "text_delta", "text")
    thought = write_delta(form, 11, "thinking_delta", "thinking")
    for misplaced in (
        write_delta(form, 1, "thinking_delta", "thinking"),
        write_delta(form, 11, "text_delta", "text"),
        write_delta(form, 111, "thinking_delta", "thinking"),
    ):
        relay = MessagesRelay(model=None)
        wire = beginning + text + text + thought + thought + text
        assert relay.feed(wire) == wire
        assert relay.failed is None
        assert misplaced not in relay.feed(misplaced)
        assert relay.failed is not None
        assert relay.failed.code == "upstream_garbled"


def test_blocks_may_be_interleaved() -> None:
    events = [
        *(MESSAGE, begin(TEXT), begin(BLOCKS["tool_use"], 1), begin(THINKING, 2)),
        *(extend(A), extend(DELTAS["input_json_delta"], 1), extend(HM, 2), extend(A), extend(HM, 2)),
        *(stop(1), extend(A), extend(HM, 2), stop(0), extend(HM, 2), stop(2)),
    ]
    wire = b"".join(encode(events, is_named=True))
    relay = MessagesRelay(model=None)
    assert relay.feed(wire) == wire
    assert relay.failed is None
    kinds = [block["type"] for block in build_message(wire)["content"]]
    assert kinds == ["text", "tool_use", "thinking"]


def test_an_index_may_be_used_again_for_another_block() -> None:
    events = [MESSAGE, begin(THINKING), extend(HM), stop(), begin(TEXT), extend(A), extend(A), stop()]
    wire = b"".join(encode(events, is_named=True))
    relay = MessagesRelay(model=None)
    assert relay.feed(wire) == wire
    assert relay.failed is None


def test_a_failure_after_content_is_the_last_event() -> None:
    wire = b"".join(encode([MESSAGE, begin(TEXT), extend(A), extend(HM)], is_named=True))
    sent = relay_to_end(MessagesRelay(model=None), wire)
    assert sent.endswith(b"}\n\n")
    assert b"event: error" in sent
    assert b"thinking_delta" not in sent


TEXT_KEYS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""Type of a delta -> the key of its text."""


def is_relayed_whole(events: Sequence[Json], extra: Json, *, is_named: bool) -> bool:
    """Whether the relay forwards the extra event after the others. If not, it leaves it out and goes on."""
    relay = MessagesRelay(model=None)
    relay.feed(b"".join(encode(events, is_named=is_named)))
    had_content = relay.has_content
    [frame], [named] = encode([extra], is_named=is_named), encode([extra], is_named=True)
    sent = relay.feed(frame)
    assert relay.failed is None
    assert sent == (named if sent else b"")
    assert relay.has_content is (had_content or bool(sent)), "what is left out is no content"
    return bool(sent)


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("blank", ["", " ", "\n", "\n\n\t "], ids=repr)
@pytest.mark.parametrize(("block", "delta"), list(product(BLOCKS, TEXT_KEYS)))
def test_a_blank_delta_of_another_type_is_left_out(block: str, delta: str, blank: str, is_named: bool) -> None:
    extra = extend({"type": delta, TEXT_KEYS[delta]: blank})
    events = [MESSAGE, begin(BLOCKS[block])]
    assert is_relayed_whole(events, extra, is_named=is_named) is ((block, delta) in FITTING)
    if (block, delta) not in FITTING:
        assert decode(AnthropicDecoder(counting_ids()), [*events, extra]) == decode(
            AnthropicDecoder(counting_ids()), events
        )
        wire, with_extra = (b"".join(encode(each, is_named=is_named)) for each in (events, [*events, extra]))
        assert build_message(with_extra) == build_message(wire)


SPACE: Json = {"type": "text_delta", "text": "\n"}
NO_INPUT: Json = {"type": "input_json_delta", "partial_json": ""}
CALL, INPUT = BLOCKS["tool_use"], DELTAS["input_json_delta"]
OPENED_BEFORE: dict[str, tuple[list[Json], Json]] = {
    # the events before, and the blank delta
    "a later block": ([begin(TEXT), extend(A)], extend(SPACE, 7)),
    "no block at all": ([], extend(SPACE)),
    "a block that has ended": ([begin(TEXT), extend(A), stop()], extend(SPACE)),
    "a block that has ended, of another type": ([begin(THINKING), extend(HM), stop()], extend(SPACE)),
    "a block that has ended, and another is open": (
        [begin(CALL), extend(INPUT), stop(), begin(CALL, 1), extend(INPUT, 1)],
        extend(SPACE),
    ),
    "a call that has ended": ([begin(CALL), extend(INPUT), stop()], extend(NO_INPUT)),
    "an index that is a text": ([begin(TEXT), extend(A)], extend(SPACE, "0")),
    "no index": ([begin(TEXT), extend(A)], {"type": "content_block_delta", "delta": SPACE}),
}


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize(("events", "extra"), OPENED_BEFORE.values(), ids=OPENED_BEFORE)
def test_a_blank_delta_of_a_block_that_is_not_open_is_left_out(events: list[Json], extra: Json, is_named: bool) -> None:
    assert not is_relayed_whole([MESSAGE, *events], extra, is_named=is_named)


@pytest.mark.parametrize(
    ("events", "extra"), [OPENED_BEFORE["a later block"], OPENED_BEFORE["no block at all"]], ids=["later", "none"]
)
def test_a_blank_delta_of_a_block_that_never_began_adds_nothing_to_a_message(events: list[Json], extra: Json) -> None:
    wire = [encode([MESSAGE, *each], is_named=True) for each in (events, [*events, extra])]
    without, with_extra = (build_message(b"".join(frames)) for frames in wire)
    assert with_extra == without


@pytest.mark.parametrize(
    "name", ["a later block", "no block at all", "a block that has ended", "a call that has ended"]
)
def test_a_blank_delta_of_a_block_that_is_not_open_is_not_decoded(name: str) -> None:
    events, extra = OPENED_BEFORE[name]
    without, with_extra = (
        decode(AnthropicDecoder(counting_ids()), [MESSAGE, *each]) for each in (events, [*events, extra])
    )
    assert with_extra == without


def test_calls_and_thinking_go_on_after_what_is_left_out() -> None:
    left_out = [extend(SPACE), extend(SPACE, 1)]
    events = [
        *(MESSAGE, begin(THINKING), extend(HM), left_out[0], extend(HM), stop()),
        *(begin(CALL, 1), extend(INPUT, 1), left_out[1], stop(1), begin(CALL, 2), extend(INPUT, 2), stop(2)),
    ]
    kept = [event for event in events if event not in left_out]
    relay = MessagesRelay(model=None)
    sent = relay.feed(b"".join(encode(events, is_named=True)))
    assert sent == b"".join(encode(kept, is_named=True))
    assert relay.failed is None
    assert [block.get("thinking", block.get("input")) for block in build_message(sent)["content"]] == ["aa", {}, {}]


VISIBLE: dict[str, Json] = {
    "a text": {"type": "text_delta", "text": "\n."},
    "no text": {"type": "text_delta"},
    "a text that is null": {"type": "text_delta", "text": None},
    "a citation": DELTAS["citations_delta"],
}


@pytest.mark.parametrize("delta", VISIBLE.values(), ids=VISIBLE)
@pytest.mark.parametrize("before", [[begin(CALL)], [begin(CALL), stop()], []], ids=["another type", "ended", "never"])
def test_a_delta_that_is_not_blank_still_fails(before: list[Json], delta: Json) -> None:
    relay = MessagesRelay(model=None)
    relay.feed(b"".join(encode([MESSAGE, *before, extend(delta)], is_named=True)))
    assert relay.failed is not None
    assert relay.failed.code == "upstream_garbled"
    assert not is_decodable([MESSAGE, *before, extend(delta)])
