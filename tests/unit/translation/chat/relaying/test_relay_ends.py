"""The end of relayed chat: failures, finish reasons, whole completions."""

import re
from typing import Any

import orjson
import pytest
from openai.types.chat import ChatCompletionChunk
from pydantic import TypeAdapter

from tests.unit.support.chat_chunks import call, chunk, completion, text_chunk, usage_only
from tests.unit.support.golden import chunks_of
from tests.unit.support.translator_drivers import fail_to_end, relay_to_end
from tests.unit.translation.chat.relaying.relayed_chat import DEATH, TEXT, USAGE, relay, run, wire
from translation.chat.relaying.whole_completion import failure_of, relay_completion
from translation.chat.reply_forms import build_completion, build_completion_stream
from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.representation.events import Failed
from translation.representation.json_types import Json

TRUNCATED = "the upstream's reply broke off before it was finished"


def failure(out: bytes) -> Json:
    """The error of the last chunk of a stream that ended badly, checked to be well formed."""
    assert out.endswith(sse.DONE_FRAME)
    assert out.count(sse.DONE_FRAME) == 1
    last = chunks_of(out)[-1]
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
    error: Json = last["error"]
    assert sorted(error) == ["code", "message", "param", "type"]
    return error


ERROR = {"error": {"message": "boom", "type": "InternalServerError", "param": None, "code": 500}}

FAILURES: dict[str, tuple[bytes, str, str]] = {
    "an error between chunks": (wire(text_chunk("a"), ERROR), "upstream_error", "boom"),
    "an error in a choice": (
        wire(text_chunk("a"), {"choices": [{"error": {"message": "boom", "code": 500}}]}),
        "upstream_error",
        "boom",
    ),
    "a finish reason about a truncation": (
        wire(text_chunk("a"), chunk(finish="error")),
        "upstream_error",
        "the upstream broke off its reply",
    ),
    "the upstream closes early": (wire(text_chunk("a"), done=False), "upstream_truncated", TRUNCATED),
    "done without a finish reason": (wire(text_chunk("a")), "upstream_truncated", TRUNCATED),
    "the upstream closes in the middle of JSON": (
        wire(text_chunk("a"), done=False) + b'data: {"choices": [{"del',
        "upstream_truncated",
        TRUNCATED,
    ),
    "a line that is no JSON": (
        wire(text_chunk("a"), done=False) + b"data: {oops}\n\n" + wire(text_chunk("b")),
        "upstream_garbled",
        "an event of the upstream's stream is not JSON",
    ),
    "a page of HTML": (
        wire(text_chunk("a"), done=False) + b"data: <html>\n\n",
        "upstream_garbled",
        "an event of the upstream's stream is not JSON",
    ),
    "bytes that are no UTF-8": (
        wire(text_chunk("a"), done=False) + wire(text_chunk("xx"), done=False).replace(b"xx", b"\xff\xfe"),
        "upstream_garbled",
        "an event of the upstream's stream is not JSON",
    ),
    "JSON that is no object": (
        wire(text_chunk("a"), done=False) + b"data: 7\n\n",
        "upstream_garbled",
        "an event of the upstream's stream is not a JSON object",
    ),
    "a choice that is no object": (
        wire(text_chunk("a"), {"choices": ["x"]}),
        "upstream_garbled",
        "a choice of the upstream's stream is not a JSON object",
    ),
    "a delta that is a text": (
        wire(text_chunk("a"), {"choices": [{"index": 0, "delta": "b"}]}),
        "upstream_garbled",
        "a delta of the upstream's stream is not a JSON object",
    ),
    "a delta that is a list, at the end": (
        wire(text_chunk("a"), {"choices": [{"index": 0, "delta": ["b"], "finish_reason": "stop"}]}),
        "upstream_garbled",
        "a delta of the upstream's stream is not a JSON object",
    ),
    "a choice whose number is none": (
        wire(text_chunk("a"), {"choices": [{"index": [1], "delta": {}, "finish_reason": "stop"}]}),
        "upstream_garbled",
        "the index of a choice in the upstream's stream is not a number",
    ),
    "a frame without end": (
        wire(text_chunk("a"), done=False) + b"data: " + b"x" * 400,
        "upstream_garbled",
        "an event of the stream is longer than 300 bytes",
    ),
}


@pytest.mark.parametrize(("sent", "code", "message"), FAILURES.values(), ids=FAILURES)
def test_a_stream_that_breaks_ends_in_an_error(sent: bytes, code: str, message: str) -> None:
    relaying = relay(model="ours", max_frame_bytes=300)
    first_frame, rest = sent.split(b"\n\n", 1)
    out = run(relaying, [first_frame[:60], first_frame[60:] + b"\n\n", rest])
    error = failure(out)
    assert (error["code"], error["message"]) == (code, message)
    assert relaying.failed is not None
    assert relaying.failed.code == code
    assert relaying.feed(wire(text_chunk("more"))) == relaying.finish() == relaying.fail(Failed("x", "y")) == b""
    assert [each["model"] for each in chunks_of(out)] == ["ours", "ours"]
    for each in chunks_of(out)[:-1]:
        TypeAdapter(ChatCompletionChunk).validate_python({**each, "created": 0}, strict=True)


def test_a_stream_of_malformed_deltas_fails_before_anything_is_sent() -> None:
    relaying = relay()
    deltas = [{"choices": [{"index": 0, "delta": "b", "finish_reason": reason}]} for reason in (None, "stop")]
    assert relaying.feed(wire(*deltas)) == b""
    assert relaying.failed is not None
    assert not relaying.has_content


@pytest.mark.parametrize("delta", [None, "", [], 0, False, {}], ids=repr)
def test_an_empty_delta_of_any_type_becomes_an_object(delta: Any) -> None:
    relaying = relay()
    empty = [{"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for reason in (None, "stop")]
    out = run(relaying, [wire(text_chunk("a"), *empty)])
    assert relaying.failed is None
    choices = [each["choices"][0] for each in chunks_of(out)[1:]]
    assert [(choice["delta"], choice["finish_reason"]) for choice in choices] == [({}, None), ({}, "stop")]


def test_a_recorded_death_of_the_engine_ends_in_an_error() -> None:
    out = run(relay(), [DEATH.read_bytes()])
    assert failure(out)["message"].startswith("EngineCore encountered an issue")


EARLY: dict[str, tuple[bytes, str]] = {
    "an error at once": (wire(ERROR), "upstream_error"),
    "an error after the role": (wire(chunk({"role": "assistant"}), ERROR), "upstream_error"),
    "nothing": (b"", "upstream_truncated"),
    "another kind of answer": (b'data: {"detail": "Not Found"}\n\n', "upstream_error"),
    "an object of another kind": (b'data: {"found": false}\n\n', "upstream_garbled"),
}


@pytest.mark.parametrize(("sent", "code"), EARLY.values(), ids=EARLY)
def test_before_content_a_failure_is_left_to_the_caller(sent: bytes, code: str) -> None:
    relaying = relay()
    out = run(relaying, [sent])
    assert sse.DONE_FRAME not in out
    assert relaying.failed is not None
    assert (relaying.failed.code, relaying.has_content) == (code, False)
    assert failure(fail_to_end(relaying, Failed("later", "not this")))["code"] == code


def test_a_broken_transport_closes_the_stream_once() -> None:
    relaying = relay()
    relaying.feed(wire({**text_chunk("a"), "created": 7}, usage_only(**USAGE), done=False))
    out = fail_to_end(relaying, Failed("upstream_disconnected", "gone"))
    assert failure(out)["code"] == "upstream_disconnected"
    last = chunks_of(out)[-1]
    assert (last["id"], last["created"], last["model"]) == ("c1", 7, "m")
    assert relaying.fail(Failed("again", "gone")) == b""


def test_a_failure_before_anything_is_reported_by_the_gateway() -> None:
    (last,) = chunks_of(fail_to_end(relay(), Failed("upstream_timeout", "silence")))
    assert (last["id"], last["created"], last["model"]) == ("c9", 7, "asked")


def test_a_failure_keeps_the_usage_so_far() -> None:
    relaying = relay()
    run(relaying, [wire({**text_chunk("a"), "usage": USAGE}, done=False)])
    assert relaying.failed is not None
    assert relaying.failed.usage is relaying.usage is not None


def test_a_chunk_without_choices_in_the_middle_is_forwarded_with_an_empty_list_of_them() -> None:
    ping = {"object": "chat.completion.chunk", "note": "still here"}
    sent = (ping, text_chunk("a"), {"note": "x"}, chunk(finish="stop"))
    expected = wire(ping | {"choices": []}, text_chunk("a"), {"note": "x", "choices": []}, chunk(finish="stop"))
    assert run(relay(), [wire(*sent)]) == expected


def choice(index: int, finish: str | None = None) -> Json:
    return {**chunk(), "choices": [{"index": index, "delta": {"content": "a"}, "finish_reason": finish}]}


def test_several_choices_are_all_forwarded() -> None:
    sent = wire(choice(0), choice(1), choice(0, "stop"), choice(1, "length"))
    assert run(relay(choice_count=2), [sent]) == sent


def test_several_choices_are_whole_only_when_each_has_finished() -> None:
    assert failure(run(relay(choice_count=2), [wire(choice(0, "stop"), choice(1))]))["code"] == "upstream_truncated"


def test_a_whole_completion_is_forwarded_with_the_gateways_model_name() -> None:
    sent = completion({"content": "a", "reasoning": "hm"}, provider="x")
    given = orjson.dumps(sent)
    out = relay_completion(sent, model="ours", reasoning_fields=frozenset({"reasoning_content"}))
    expected = completion({"content": "a", "reasoning_content": "hm"}, provider="x")
    assert out == {**expected, "model": "ours"}
    assert orjson.dumps(sent) == given


def test_a_whole_completion_may_keep_its_name() -> None:
    sent = completion({"content": "a"})
    assert relay_completion(sent, model=None, reasoning_fields=frozenset()) == sent


CALLING: Json = {"tool_calls": [call(0, id="a", name="f", arguments="{}") | {"type": "function"}]}

ENDINGS: dict[str, tuple[Json, Any, bool, Json]] = {
    "a stop after calls is the calls": (CALLING, "stop", False, {"finish_reason": "tool_calls"}),
    "calls that never came are a stop": ({"content": "a"}, "tool_calls", False, {"finish_reason": "stop"}),
    "the old word for calls becomes the new one": (
        {"function_call": {"name": "f", "arguments": "{}"}},
        "function_call",
        False,
        {"finish_reason": "tool_calls"},
    ),
    "a client of functions hears the old word": (
        {"function_call": {"name": "f", "arguments": "{}"}},
        "stop",
        True,
        {"finish_reason": "function_call"},
    ),
    "a cut after calls is a cut": (CALLING, "length", False, {"finish_reason": "length"}),
    "a vendor's word for a cut is chat's": ({"content": "a"}, "model_length", False, {"finish_reason": "length"}),
    "a value that is no word is a stop, and reported beside it": (
        {"content": "a"},
        ["eos"],
        False,
        {"finish_reason": "stop", "native_finish_reason": "['eos']"},
    ),
    "an unknown word is a stop, and reported beside it": (
        {"content": "a"},
        "eos",
        False,
        {"finish_reason": "stop", "native_finish_reason": "eos"},
    ),
}


@pytest.mark.parametrize(("delta", "finish", "legacy", "expected"), ENDINGS.values(), ids=ENDINGS)
def test_finish_reasons_are_those_of_chat(delta: Json, finish: Any, legacy: bool, expected: Json) -> None:
    relaying = relay(legacy_functions=legacy)
    (streamed,) = chunks_of(run(relaying, [wire(chunk(delta), chunk(finish=finish))]))[-1]["choices"]
    whole = relay_completion(
        completion(delta, finish=finish),
        model=None,
        reasoning_fields=frozenset(),
        legacy_functions=legacy,
    )
    for choice in (streamed, *whole["choices"]):
        assert {key: choice[key] for key in choice if key.endswith("finish_reason")} == expected


def test_details_beside_the_finish_reason_stay() -> None:
    sent = chunk(finish="eos")
    sent["choices"][0]["native_finish_reason"] = "EOS_TOKEN"
    (choice,) = chunks_of(run(relay(), [wire(text_chunk("a"), sent)]))[-1]["choices"]
    assert (choice["finish_reason"], choice["native_finish_reason"]) == ("stop", "EOS_TOKEN")


@pytest.mark.parametrize(
    ("second", "relayed"), [("eos", None), ("tool_calls", None), ("length", "length"), ("sensitive", "content_filter")]
)
def test_a_second_finish_reason_is_relayed_only_if_the_answer_was_cut_off(second: str, relayed: str | None) -> None:
    out = chunks_of(run(relay(), [wire(text_chunk("a"), chunk(finish="eos"), chunk(finish=second))]))
    assert [each["choices"][0]["finish_reason"] for each in out] == [None, "stop", relayed]


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_a_reason_that_the_last_chunk_repeats_is_one_reason_of_the_whole_completion(reason: str) -> None:
    """OpenRouter repeats it in the chunk with the usage."""
    ends = [chunk(finish=reason), chunk(finish=reason)]
    for end in ends:
        end["choices"][0]["native_finish_reason"] = "end_of_turn"
    (choice,) = build_completion(run(relay(), [wire(text_chunk("a"), *ends)]))["choices"]
    assert (choice["finish_reason"], choice["native_finish_reason"]) == (reason, "end_of_turn")


def test_a_whole_completion_without_a_reason_stopped() -> None:
    sent = completion({"content": "a"}, finish=None)
    out = relay_completion(sent, model=None, reasoning_fields=frozenset())
    assert [choice["finish_reason"] for choice in out["choices"]] == ["stop"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (completion({"content": "a"}, finish="error"), "the upstream broke off its reply"),
        ({"choices": [{"message": {}, "error": {"message": "no more"}}]}, "no more"),
    ],
    ids=["its reason shows it", "its error shows it"],
)
def test_a_whole_completion_that_broke_off_is_a_failure(answer: Json, message: str) -> None:
    assert failure_of(answer) == Failed("upstream_error", message)


@pytest.mark.parametrize("answer", [completion({"content": "a"}), {}, {"choices": ["x"]}], ids=repr)
def test_other_replies_are_not_truncated(answer: Json) -> None:
    assert failure_of(answer) is None


@pytest.mark.parametrize(
    "answer", [{}, {"choices": []}, {"choices": ["x"]}, {"choices": [{"index": 0}]}, ERROR], ids=repr
)
def test_an_invalid_completion_is_not_forwarded(answer: Json) -> None:
    with pytest.raises(ProtocolViolation):
        relay_completion(answer, model=None, reasoning_fields=frozenset())


def test_a_list_of_parts_becomes_text_and_reasoning() -> None:
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    text = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    sent = wire(text_chunk(""), chunk({"content": thinking}), chunk({"content": text}), chunk(finish="stop"))
    deltas = [each["choices"][0]["delta"] for each in chunks_of(run(relay(), [sent]))]
    assert deltas[1:3] == [{"content": "", "reasoning": "hm"}, {"content": "ab"}]
    whole = relay_completion(
        completion({"content": [*thinking, *text]}),
        model=None,
        reasoning_fields=frozenset({"reasoning"}),
    )
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "ab", "reasoning": "hm"}


IMAGE: Json = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
PARTS: dict[str, tuple[list[Json], Json]] = {
    "an image": ([{"type": "text", "text": "a"}, IMAGE], {"content": "a", "images": [IMAGE]}),
    "an image alone": ([IMAGE], {"content": "", "images": [IMAGE]}),
    "an unknown part": (
        [{"type": "text", "text": "a"}, {"type": "hologram"}],
        {"content": [{"type": "text", "text": "a"}, {"type": "hologram"}]},
    ),
    "a reference of Mistral": ([{"type": "text", "text": "a"}, {"type": "reference"}], {"content": "a"}),
}


@pytest.mark.parametrize("case", PARTS)
def test_no_part_of_a_list_is_lost(case: str) -> None:
    parts, expected = PARTS[case]
    sent = wire(text_chunk(""), chunk({"content": parts}), chunk(finish="stop"))
    assert chunks_of(run(relay(), [sent]))[1]["choices"][0]["delta"] == expected
    whole = relay_completion(completion({"content": parts}), model=None, reasoning_fields=frozenset())
    assert whole["choices"][0]["message"] == {"role": "assistant", **expected}


def test_images_of_a_message_stay_beside_those_of_its_content() -> None:
    sent = completion({"content": [IMAGE], "images": [{**IMAGE, "index": 0}]})
    whole = relay_completion(sent, model=None, reasoning_fields=frozenset())
    assert whole["choices"][0]["message"]["images"] == [{**IMAGE, "index": 0}]


def test_an_unsent_end_can_still_become_a_failure() -> None:
    relaying = relay()
    assert relaying.feed(wire(*TEXT)) == wire(*TEXT, done=False)
    assert relaying.ended
    assert failure(fail_to_end(relaying, Failed("store_unavailable", "not kept")))["message"] == "not kept"


ALIKE: dict[str, tuple[list[bytes], dict[str, Any], int]] = {
    "text": ([*map(orjson.dumps, [*TEXT[:3], text_chunk('"c\\'), text_chunk(""), text_chunk("d"), TEXT[-1]])], {}, 4),
    "another name": ([*map(orjson.dumps, TEXT)], {"model": "ours"}, 2),
    "a name given twice": (
        [orjson.dumps(each).replace(b'"choices"', b'"model":"m","choices"') for each in TEXT],
        {"model": "ours"},
        0,
    ),
    "reasoning": ([*map(orjson.dumps, [*map(chunk, [{"reasoning": "a"}] * 4), *TEXT])], {}, 5),
    "reasoning for another field": (
        [*map(orjson.dumps, [*map(chunk, [{"reasoning": "a"}] * 3), TEXT[-1]])],
        {"reasoning_fields": frozenset({"reasoning_content"})},
        0,
    ),
    "arguments": ([*map(orjson.dumps, [TEXT[0], *[chunk(call(0, arguments="{}"))] * 3, TEXT[-1]])], {}, 0),
    "nothing": ([*map(orjson.dumps, [*TEXT[:2], chunk({}), chunk({}), TEXT[-1]])], {}, 0),
    "several choices": ([*map(orjson.dumps, TEXT)], {"choice_count": 2}, 0),
    "no JSON": (
        [*map(orjson.dumps, TEXT[:2]), *[b'{"finish_reason":null,"content":}'] * 2, orjson.dumps(TEXT[-1])],
        {},
        0,
    ),
    "no list of choices": (
        [*map(orjson.dumps, TEXT[:2]), *[b'{"finish_reason":null,"choices":{}}'] * 2, orjson.dumps(TEXT[-1])],
        {},
        0,
    ),
}


@pytest.mark.parametrize(("payloads", "options", "short"), ALIKE.values(), ids=ALIKE)
def test_frames_of_a_delta_run_are_relayed_like_others(
    payloads: list[bytes], options: dict[str, Any], short: int
) -> None:
    frames = [*map(sse.encode_data, payloads), sse.DONE_FRAME]
    whole, one_by_one = relay(**options), relay(**options)
    alike = 0
    out: list[bytes] = []
    for read in frames:
        passed = None if one_by_one.template is None else one_by_one.template.encode_read(read)
        alike += passed is not None
        out.append(one_by_one.feed(read) if passed is None else passed)
    assert b"".join([*out, relay_to_end(one_by_one)]) == run(whole, [b"".join(frames)])
    assert alike == short
    assert whole.failed == one_by_one.failed


def test_a_character_that_is_split_over_two_deltas_is_joined() -> None:
    first, *rest = TEXT[:1] + TEXT[-1:]
    halves = [wire(text_chunk("TEXT"), done=False).replace(b"TEXT", half) for half in (rb"a\ud83d", rb"\ude00", b"b")]
    reads = [wire(first, done=False), *halves, wire(*rest)]
    for sent in (reads, [b"".join(reads)]):
        out = run(relay(), sent)
        texts = re.findall(r'"content":"([^"]+)"', out.decode())
        assert (texts, b"\\ud" in out) == (["a", "😀", "b"], False)


def test_text_that_ends_within_a_character_is_garbled() -> None:
    half = wire(text_chunk("TEXT"), done=False).replace(b"TEXT", rb"\ud83d")
    assert failure(run(relay(), [wire(*TEXT[:2], done=False), half, wire(TEXT[-1])]))["code"] == "upstream_garbled"


NAMELESS: Json = {"index": 0, "id": "x", "type": "function", "function": {"arguments": "{}"}}


def test_a_call_without_a_name_is_a_failure() -> None:
    relaying = relay()
    relaying.feed(wire(chunk({"tool_calls": [NAMELESS]}), chunk(finish="tool_calls")))
    assert relaying.failed is not None
    assert relaying.failed.code == "upstream_garbled"
    with pytest.raises(ProtocolViolation, match="without a name"):
        relay_completion(completion({"tool_calls": [NAMELESS]}), model=None, reasoning_fields=frozenset())


def test_a_name_may_follow_the_first_entry_of_its_call() -> None:
    begun = {"index": 0, "id": "x", "type": "function"}
    named = {"index": 0, "function": {"name": "f", "arguments": "{}"}}
    relaying = relay()
    relaying.feed(wire(chunk({"tool_calls": [begun]}), chunk({"tool_calls": [named]}), chunk(finish="tool_calls")))
    assert relaying.failed is None


def test_a_whole_completion_without_a_reason_is_complete_as_a_stream() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for message, reason in (({"content": "a"}, "stop"), ({"tool_calls": [call]}, "tool_calls")):
        (first, *_) = chunks_of(run(relay(), [build_completion_stream(completion(message, finish=None))]))
        assert first["choices"][0]["finish_reason"] == reason


@pytest.mark.parametrize("choice_count", [1, 2])
def test_a_filter_ended_a_stream_only_if_it_has_no_other_choice(choice_count: int) -> None:
    relaying = relay(choice_count=choice_count)
    relaying.feed(wire(chunk({"role": "assistant"}), chunk(finish="content_filter"), done=False))
    assert relaying.is_filtered is (choice_count == 1)


def test_the_reason_of_a_stream_is_known_at_its_end() -> None:
    """It is that of the first choice that ended, or of one that was cut off."""
    ends: list[tuple[list[Json], str]] = [
        ([chunk(finish="stop")], "stop"),
        ([chunk({"tool_calls": [call()]}), chunk(finish="stop")], "tool_calls"),
        ([chunk(finish="model_length")], "length"),
        ([chunk(finish="of_tomorrow")], "other"),
        ([choice(0, "stop"), choice(1, "length")], "length"),
        ([choice(0, "length"), choice(1, "stop")], "length"),
    ]
    for chunks, expected in ends:
        relaying = relay(choice_count=len({each["choices"][0]["index"] for each in chunks}))
        relaying.feed(wire(text_chunk("a"), done=False))
        assert relaying.finish_reason is None
        relaying.feed(wire(*chunks))
        assert relaying.finish_reason == expected
