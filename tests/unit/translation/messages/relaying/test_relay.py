"""Streams and requests that are forwarded to and from an upstream with the same API."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.unit.support.golden import GOLDEN, recordings
from tests.unit.support.stream_checks.messages_order import check_message_stream, read_frames
from tests.unit.support.translator_drivers import fail_to_end, relay_to_end
from tests.upstream.anthropic import USAGE, message
from translation.errors import ProtocolViolation
from translation.framing.sse import encode_data, encode_event
from translation.messages.relaying.calls import relay_message
from translation.messages.relaying.relay import MessagesRelay, is_message_filtered, read_message_reason
from translation.messages.relaying.reply_forms import build_message, build_message_stream
from translation.messages.relaying.request import relay_body, remove_sealed_blocks
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE

STREAM = (GOLDEN / "anthropic/published-thinking.sse").read_bytes()
HEAD, REST = STREAM.split(b"\n\n", 1)
ERROR: Json = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "key-1 is busy", "details": {"error_code": "x"}},
    "request_id": "req_1",
}
ERROR_FRAME = encode_event("error", orjson.dumps(ERROR))
START = encode_event(
    "content_block_start",
    b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
)
DELTA = encode_event(
    "content_block_delta",
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}',
)


def relay_of(model: str | None = None, **more: Any) -> MessagesRelay:
    return MessagesRelay(model=model, **more)


@pytest.mark.parametrize("recording", recordings("anthropic"), ids=lambda path: path.stem)
def test_a_stream_is_forwarded_unchanged(recording: Any) -> None:
    wire = recording.read_bytes()
    relay = relay_of()
    whole = relay_to_end(relay, *(wire[place : place + 7] for place in range(0, len(wire), 7)))
    assert read_frames(whole) == read_frames(wire)
    assert relay.has_content
    assert (relay.response, relay.warnings, relay.template) == (None, (), None)


USAGE_FRAME = (
    b'event: message_delta\ndata: {"type":"message_delta", "delta":{"stop_reason":"end_turn"}, "usage":%b}\n\n'
)


def test_the_usage_is_that_of_the_end() -> None:
    relay = relay_of()
    opening = {"input_tokens": 2679, "cache_read_input_tokens": 0, "output_tokens": 3}
    relay.feed(encode_event("message_start", orjson.dumps({"type": "message_start", "message": {"usage": opening}})))
    assert relay.usage is not None
    assert (relay.usage.input, relay.usage.cache_read) == (2679, 0)
    last = USAGE_FRAME % b'{"input_tokens":2700,"cache_read_input_tokens":7300,"output_tokens":510}'
    assert relay.feed(last) == last
    assert (relay.usage.input, relay.usage.cache_read, relay.usage.output) == (10000, 7300, 510)
    relay.feed(USAGE_FRAME % b"null")
    assert relay.usage.output == 510


def test_the_model_has_the_name_that_the_client_used() -> None:
    start, *_ = read_frames(relay_to_end(relay_of("mine"), STREAM))
    assert start["message"]["model"] == "mine"


def test_events_need_no_names_and_may_be_new() -> None:
    new = {"type": "brand_new", "x": 1}
    wire = HEAD + b"\n\n" + encode_data(orjson.dumps(new)) + START + encode_data(DELTA.split(b"data: ")[1].strip())
    relay = relay_of()
    frames = relay.feed(wire)
    assert orjson.dumps(new) in frames
    assert relay.has_content


def test_an_event_on_several_lines_is_written_on_one() -> None:
    relay = relay_of()
    frames = relay.feed(b'event: ping\ndata: {"type":\ndata: "ping"}\n\n')
    assert frames == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_nothing_follows_the_end() -> None:
    relay = relay_of()
    relay.feed(STREAM)
    assert (relay.feed(b"data: {}\n\n"), relay.finish()) == (b"", b"")
    assert relay.conclude().startswith(b"event: message_stop")
    assert relay.conclude() == b""
    assert relay.fail(Failed("x", "y")) == b""
    assert relay.failed is None


@pytest.mark.parametrize("end", [[], [{"type": "message_delta", "delta": {"stop_reason": None}}]])
@pytest.mark.parametrize("has_content", [True, False])
def test_a_stream_that_stops_without_a_reason_is_truncated(has_content: bool, end: list[Json]) -> None:
    stop = b"".join(encode_event(event["type"], orjson.dumps(event)) for event in [*end, {"type": "message_stop"}])
    relay = relay_of()
    frames = relay_to_end(relay, HEAD + b"\n\n" + (START + DELTA if has_content else b"") + stop)
    assert relay.failed is not None
    assert relay.failed.code == "upstream_truncated"
    assert b"message_stop" not in frames
    assert frames.count(b"event: error") == has_content


def test_an_error_before_content_can_still_become_a_status() -> None:
    relay = relay_of()
    assert relay.feed(HEAD + b"\n\n" + ERROR_FRAME) == HEAD + b"\n\n"
    assert relay.failed is not None
    assert (relay.failed.code, relay.ended) == ("upstream_overloaded", False)
    assert read_frames(fail_to_end(relay, Failed("other", "no")))[-1]["error"]["type"] == "overloaded_error"


def test_an_error_after_content_keeps_its_details() -> None:
    relay = relay_of(scrub=lambda text: text.replace("key-1", "[hidden]"))
    frames = relay_to_end(relay, HEAD + b"\n\n" + START + DELTA + ERROR_FRAME)
    error = {**ERROR["error"], "message": "[hidden] is busy"}
    assert read_frames(frames)[-1] == {**ERROR, "error": error}


def test_an_error_that_is_no_object_is_forwarded() -> None:
    error = encode_event("error", b'{"type":"error","error":"bad"}')
    frames = relay_to_end(relay_of(), HEAD + b"\n\n" + START + DELTA + error)
    assert read_frames(frames)[-1] == {"type": "error", "error": "bad"}


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        (b"", "upstream_truncated"),
        (b"data: {\n\n", "upstream_garbled"),
        (b"data: 3\n\n", "upstream_garbled"),
        (b"data: {}\n\n", "upstream_garbled"),
        (b'data: {"detail":"boom"}\n\n', "upstream_error"),
        (b'event: error\ndata: {"message":"boom"}\n\n', "upstream_error"),
        (b'data: {"error":{"type":"overloaded_error","message":"boom"}}\n\n', "upstream_overloaded"),
        (b"data: " + b"x" * 3000, "upstream_garbled"),
        (b"data: {}", "upstream_truncated"),
        (b"data: {", "upstream_truncated"),
        (b"event: ping\ndata: {\xff}\n\n", "upstream_garbled"),
    ],
)
def test_a_broken_stream_ends_with_an_error(rest: bytes, code: str) -> None:
    relay = relay_of(max_frame_bytes=2000)
    frames = relay_to_end(relay, HEAD + b"\n\n" + START + DELTA, rest)
    assert relay.failed is not None
    assert relay.failed.code == code
    assert frames.count(b"event: error") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            {"type": "invalid_request_error", "message": "prompt is too long: 3 tokens > 2 maximum"},
            "context_length_exceeded",
        ),
        ({"type": "rate_limit_error", "message": "slow"}, "rate_limited"),
        ({"type": "strange_error"}, "upstream_error"),
        ("text", "upstream_error"),
    ],
)
def test_errors_have_the_gateways_codes(error: Any, code: str) -> None:
    relay = relay_of()
    relay.feed(encode_event("error", orjson.dumps({"type": "error", "error": error})))
    assert relay.failed is not None
    assert relay.failed.code == code


@pytest.mark.parametrize("recording", sorted((GOLDEN / "anthropic").glob("*.json")), ids=lambda path: path.stem)
def test_a_whole_message_is_a_stream_and_back(recording: Any) -> None:
    message = orjson.loads(recording.read_bytes())
    stream = build_message_stream(message)
    assert build_message(stream) == message
    if "web-search" not in recording.stem:
        read_frames(stream)


@pytest.mark.parametrize(
    "recording",
    [path for path in recordings("anthropic") if "error" not in path.stem and "cut" not in path.stem],
    ids=lambda path: path.stem,
)
def test_a_stream_is_the_message_that_the_official_client_makes(recording: Any) -> None:
    wire = recording.read_bytes()
    if b"citations" in wire or b"server_tool" in wire:
        assert build_message(wire)["content"]
        return
    expected = check_message_stream(wire)
    assert build_message(wire)["content"] == expected["content"]


def test_the_reason_of_a_refusal_is_where_clients_of_a_stream_look_for_it() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    whole = {**message(stop_reason="refusal"), "stop_details": details}
    stream = build_message_stream(whole)
    assert check_message_stream(stream)["stop_details"] == details
    assert build_message(stream) == whole
    plain = build_message_stream({**whole, "stop_details": None})
    assert b"stop_details" not in plain


def test_an_error_object_is_an_error_event() -> None:
    assert build_message_stream(ERROR) == ERROR_FRAME


def test_unknown_deltas_are_left_out_of_a_whole_message() -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta"}}
    wire = b"".join([HEAD, b"\n\n", START, encode_event("content_block_delta", orjson.dumps(delta))])
    assert build_message(wire)["content"] == [{"type": "text", "text": ""}]


def _delta_event(**changes: Any) -> Json:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}} | changes


def _event(kind: str, **fields: Any) -> Json:
    return {"type": kind, **fields}


BLOCK: Json = {"type": "text", "text": ""}
OUT_OF_ORDER: dict[str, list[Json]] = {
    "a block before the message": [_event("content_block_start", index=0, content_block=BLOCK)],
    "a delta before the message": [_event("content_block_delta", index=0, delta={})],
    "the end of a block before the message": [_event("content_block_stop", index=0)],
    "the end before the message": [_event("message_delta", delta={"stop_reason": "end_turn"})],
    "a stop before the message": [_event("message_stop")],
    "a delta of no block": [
        _event("message_start", message={"usage": USAGE}),
        _event("content_block_delta", index=0, delta={}),
    ],
    "a delta of a block that has ended": [
        _event("message_start", message={"usage": USAGE}),
        _event("content_block_start", index=0, content_block=BLOCK),
        _event("content_block_stop", index=0),
        _event("content_block_delta", index=0, delta={}),
    ],
    "the end of no block": [_event("message_start", message={"usage": USAGE}), _event("content_block_stop", index=0)],
    "a second message": [
        _event("message_start", message={"usage": USAGE}),
        _event("message_start", message={"usage": USAGE}),
    ],
    "a message that is a text": [_event("message_start", message="m"), _event("content_block_stop", index=0)],
}


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("events", OUT_OF_ORDER.values(), ids=OUT_OF_ORDER)
def test_events_out_of_order_end_the_stream_as_failed(events: list[Json], is_named: bool) -> None:
    payloads = [(event["type"], orjson.dumps(event)) for event in events]
    wire = [encode_event(*each) if is_named else encode_data(each[1]) for each in payloads]
    relay = relay_of()
    for frame, payload in zip(wire[:-1], payloads, strict=False):
        assert relay.feed(frame) == encode_event(*payload)  # with its name, because official clients need it
    frames = relay.feed(wire[-1])
    assert relay.failed is not None
    assert relay.failed.code == "upstream_garbled"
    assert wire[-1] not in frames


@pytest.mark.parametrize("reason", [3, True, ["end_turn"], {"type": "end_turn"}], ids=str)
def test_a_stop_reason_that_is_no_text_ends_the_stream_as_failed(reason: Any) -> None:
    relay = relay_of()
    relay.feed(encode_data(orjson.dumps(_event("message_start", message={"usage": USAGE}))))
    relay.feed(encode_data(orjson.dumps(_event("message_delta", delta={"stop_reason": reason}))))
    assert relay.failed is not None
    assert relay.failed.code == "upstream_garbled"
    with pytest.raises(ProtocolViolation):
        relay_message({"type": "message", "content": [], "stop_reason": reason}, None)


def test_blocks_may_overlap() -> None:
    events = [
        _event("message_start", message={"usage": USAGE}),
        *(_event("content_block_start", index=index, content_block=BLOCK) for index in (0, 1)),
        _event("content_block_stop", index=0),
        _event("content_block_delta", index=1, delta={}),
        _event("content_block_stop", index=1),
    ]
    wire = b"".join(encode_event(event["type"], orjson.dumps(event)) for event in events)
    relay = relay_of()
    assert relay.feed(wire) == wire
    assert relay.failed is None


MESSAGE_START: Json = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}}
BLOCK_START: Json = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
MALFORMED: dict[str, list[Any]] = {
    "no start": [BLOCK_START, _delta_event()],
    "nothing": [],
    "only a stop": [{"type": "message_stop"}],
    "an end without a start": [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}],
    "a start without a message": [{"type": "message_start"}],
    "a start whose message is a text": [{"type": "message_start", "message": "m"}],
    "two starts": [MESSAGE_START, MESSAGE_START],
    "a delta before its block": [MESSAGE_START, _delta_event()],
    "an index of no block": [MESSAGE_START, BLOCK_START, _delta_event(index=1)],
    "a negative index": [MESSAGE_START, BLOCK_START, _delta_event(index=-1)],
    "an index that is a text": [MESSAGE_START, BLOCK_START, _delta_event(index="0")],
    "an index that is a list": [MESSAGE_START, BLOCK_START, _delta_event(index=[])],
    "a delta without an index": [MESSAGE_START, BLOCK_START, {"type": "content_block_delta", "delta": {}}],
    "no delta": [MESSAGE_START, BLOCK_START, {"type": "content_block_delta", "index": 0}],
    "a delta that is a text": [MESSAGE_START, BLOCK_START, _delta_event(delta="a")],
    "a delta without a type": [MESSAGE_START, BLOCK_START, _delta_event(delta={"text": "a"})],
    "a delta without a text": [MESSAGE_START, BLOCK_START, _delta_event(delta={"type": "text_delta"})],
    "a text that is a number": [MESSAGE_START, BLOCK_START, _delta_event(delta={"type": "text_delta", "text": 1})],
    "no citation": [MESSAGE_START, BLOCK_START, _delta_event(delta={"type": "citations_delta"})],
    "a block without an index": [MESSAGE_START, {"type": "content_block_start", "content_block": {"type": "text"}}],
    "a block that is null": [MESSAGE_START, BLOCK_START | {"content_block": None}],
    "a block without a type": [MESSAGE_START, BLOCK_START | {"content_block": {"text": ""}}],
    "two blocks with one index": [MESSAGE_START, BLOCK_START, BLOCK_START],
    "an end without a delta": [MESSAGE_START, {"type": "message_delta"}],
    "an end whose delta is null": [MESSAGE_START, {"type": "message_delta", "delta": None}],
    "a usage that is a list": [MESSAGE_START, {"type": "message_delta", "delta": {}, "usage": [1]}],
    "an event without a type": [MESSAGE_START, {}],
    "an event that is a number": [MESSAGE_START, 3],
}


@pytest.mark.parametrize("events", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_stream_is_no_whole_message(events: list[Any]) -> None:
    with pytest.raises(ProtocolViolation):
        build_message(b"".join(encode_data(orjson.dumps(event)) for event in events))


def test_a_stream_that_is_not_json_is_no_whole_message() -> None:
    with pytest.raises(ProtocolViolation):
        build_message(b"event: content_block_delta\ndata: {a}\n\n")


def test_blocks_are_found_by_the_index_that_their_events_have() -> None:
    events = [MESSAGE_START, BLOCK_START | {"index": 3}, _delta_event(index=3), {"type": "message_stop"}]
    message = build_message(b"".join(encode_data(orjson.dumps(event)) for event in events))
    assert message["content"] == [{"type": "text", "text": "a"}]


def test_a_compaction_is_whole_in_a_whole_message() -> None:
    events: list[Json] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": "Before."}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "compaction"},
            "usage": {"output_tokens": 3},
            "context_management": {"applied_edits": [1]},
        },
        {"type": "message_stop"},
    ]
    assert build_message(b"".join(encode_event(event["type"], orjson.dumps(event)) for event in events)) == {
        "id": "m",
        "content": [{"type": "compaction", "content": "Before."}],
        "stop_reason": "compaction",
        "usage": {"input_tokens": 1, "output_tokens": 3},
        "context_management": {"applied_edits": [1]},
    }


def test_a_request_is_forwarded_with_the_upstreams_model() -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [], "new": 1, "system": None}
    lowered = relay_body(body, DEFAULT_PROFILE, model="claude")
    assert lowered.body == {"model": "claude", "max_tokens": 5, "messages": [], "new": 1}


HEADER = "x-anthropic-billing-header: cc_version=1; cch=2;"
MOVED = f"<system>\n{HEADER}\n</system>"
SYSTEMS: dict[str, tuple[Any, Any]] = {
    "a text": (f"{HEADER}\nBe kind.", "Be kind."),
    "blocks": ([{"type": "text", "text": HEADER}, {"type": "text", "text": "b"}], [{"type": "text", "text": "b"}]),
    "nothing else": (HEADER, None),
}


@pytest.mark.parametrize(("system", "rest"), SYSTEMS.values(), ids=SYSTEMS)
def test_a_volatile_line_of_a_relayed_request_is_moved_unless_the_upstream_is_anthropic(system: Any, rest: Any) -> None:
    profile = replace(DEFAULT_PROFILE, volatile_lines=("x-anthropic-billing-header:*",))
    body: Json = {"model": "m", "system": system, "messages": [{"role": "user", "content": "Hi"}]}
    moved = relay_body(body, profile, model="m").body
    assert moved.get("system") == rest
    assert moved["messages"] == [{"role": "user", "content": f"Hi\n\n{MOVED}"}]
    assert relay_body(body, DEFAULT_PROFILE, model="m").body == body
    plain: Json = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert relay_body(plain, profile, model="m").body == plain
    assert body["system"] == system


@pytest.mark.parametrize(("system", "rest"), SYSTEMS.values(), ids=SYSTEMS)
def test_a_line_that_no_model_needs_is_left_out_of_a_relayed_request(system: Any, rest: Any) -> None:
    profile = replace(DEFAULT_PROFILE, removed_lines=("x-anthropic-billing-header:*",))
    body: Json = {"model": "m", "system": system, "messages": [{"role": "user", "content": HEADER}]}
    expected = {**body, "system": rest} if rest else {key: body[key] for key in ("model", "messages")}
    assert relay_body(body, profile, model="m").body == expected


def test_system_messages_of_a_relayed_request_are_merged_where_the_upstream_accepts_no_others() -> None:
    profile = replace(DEFAULT_PROFILE, system_messages="merge_all")
    user: Json = {"role": "user", "content": "Hi"}
    block: Json = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    late: list[Json] = [{"role": "system", "content": [block]}, {"role": "system"}]
    body: Json = {"model": "m", "system": "a", "messages": [user, *late]}
    merged, losses = relay_body(body, profile, model="m")
    assert merged == {"model": "m", "system": [{"type": "text", "text": "a"}, block], "messages": [user]}
    assert [str(loss) for loss in losses] == ["messages=system messages merged"]
    plain: Json = {"model": "m", "system": "a", "messages": [user]}
    assert relay_body(plain, profile, model="m") == (plain, [])


def test_thinking_sealed_by_the_gateway_is_not_forwarded() -> None:
    own = {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}
    sealed = [
        {"type": "thinking", "thinking": "Hm.", "signature": "rgr1"},
        {"type": "redacted_thinking", "data": "call.rgr1"},
    ]
    text = {"type": "text", "text": "a"}
    messages: list[Json] = [
        {"role": "user", "content": [text]},
        {"role": "assistant", "content": [own, *sealed, text]},
        {"role": "assistant", "content": sealed},
        {"role": "assistant", "content": "b"},
        {"role": "system"},
        {"role": "user", "content": []},
        {"role": "system", "content": None, "output_config": {"effort": "low"}},
    ]
    losses: list[Loss] = []
    kept = remove_sealed_blocks(messages, lambda value: value.startswith("rgr"), losses)
    assert kept == [messages[0], {"role": "assistant", "content": [own, text]}, *messages[3:]]
    assert losses == [Loss("messages", "thinking of another model dropped")]
    assert remove_sealed_blocks(kept, lambda value: value.startswith("rgr"), losses) is kept


def test_signatures_alone_are_left_out_without_a_loss() -> None:
    carrier: Json = {"type": "redacted_thinking", "data": "signature.rgr1"}
    foreign: Json = {"type": "redacted_thinking", "data": "signature.EqQB"}
    text: Json = {"type": "text", "text": "a"}
    messages: list[Json] = [
        {"role": "assistant", "content": [carrier, text]},
        {"role": "assistant", "content": [carrier]},
        {"role": "assistant", "content": [foreign]},
    ]
    losses: list[Loss] = []
    kept = remove_sealed_blocks(messages, lambda value: value.startswith("rgr"), losses)
    assert kept == [{"role": "assistant", "content": [text]}, messages[2]]
    assert losses == []


def test_foreign_searches_and_citations_are_not_forwarded() -> None:
    text: Json = {"type": "text", "text": "a"}
    own = [search_use("1"), search_result("1", "EqQB"), {**text, "citations": [{"encrypted_index": "Eo8B"}]}]
    failed = [search_use("2"), {**search_result("2"), "content": {"error_code": "unavailable"}}]
    odd = {**text, "citations": ["odd", {"type": "char_location"}]}
    foreign = [
        *(search_use("3"), search_result("3", "rgr1", "")),
        *(search_use("4"), search_result("4", "")),
        {**text, "citations": [{"encrypted_index": ""}]},
    ]
    messages: list[Json] = [{"role": "assistant", "content": [*own, *failed, odd, *foreign]}]
    losses: list[Loss] = []
    kept = remove_sealed_blocks(messages, lambda value: value.startswith("rgr"), losses)
    assert kept == [{"role": "assistant", "content": [*own, *failed, odd, text]}]
    assert losses == [
        Loss("messages", "searches of another model dropped"),
        Loss("messages", "citations of another model dropped"),
    ]


def search_use(number: str) -> Json:
    return {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search", "input": {}}


def search_result(number: str, *ciphers: str) -> Json:
    pages = [{"type": "web_search_result", "url": "http://a", "encrypted_content": cipher} for cipher in ciphers]
    return {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": pages}


REFUSED = b'event: message_delta\ndata: {"type":"message_delta", "delta":{"stop_reason":"refusal"}}\n\n'


@pytest.mark.parametrize(
    ("frames", "expected"),
    [((REFUSED,), True), ((USAGE_FRAME % b"{}",), False), ((START, DELTA, REFUSED), False)],
    ids=["nothing", "another end", "after a text"],
)
def test_a_refusal_without_content_is_what_a_filter_does(frames: Sequence[bytes], expected: bool) -> None:
    relay = relay_of()
    relay.feed(HEAD + b"\n\n" + b"".join(frames))
    assert relay.is_filtered is expected


def test_a_refused_message_without_content_is_what_a_filter_does() -> None:
    assert is_message_filtered({"content": [], "stop_reason": "refusal"})
    assert not is_message_filtered({"content": [{"type": "text", "text": "Well"}], "stop_reason": "refusal"})
    assert not is_message_filtered({"content": [], "stop_reason": "end_turn"})


@pytest.mark.parametrize(
    ("stop_reason", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("refusal", "content_filter"),
        ("of_tomorrow", "other"),
        (None, "other"),
    ],
)
def test_the_reason_of_a_message_is_known(stop_reason: str | None, expected: str) -> None:
    assert read_message_reason({"stop_reason": stop_reason}) == expected
    relay = MessagesRelay(model=None)
    assert relay.finish_reason is None
    delta = {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 1}}
    relay.feed(encode_event("message_start", orjson.dumps({"type": "message_start", "message": {}})))
    if stop_reason == "tool_use":
        block = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
        begin = {"type": "content_block_start", "index": 0, "content_block": block}
        relay.feed(encode_event("content_block_start", orjson.dumps(begin)))
    relay.feed(encode_event("message_delta", orjson.dumps(delta)))
    assert relay.finish_reason == (None if stop_reason is None else expected)
