"""Chat relayed to chat: unchanged frames, rewritten frames, and the end."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.unit.support.chat_chunks import chunk, text_chunk, thought, usage_only
from tests.unit.support.golden import GOLDEN, chunks_of, recordings
from tests.unit.support.translator_drivers import every_split, feed_to_end
from tests.unit.translation.chat.relaying.relayed_chat import DEATH, TEXT, USAGE, relay, run, wire
from translation.framing import sse
from translation.representation.json_types import Json

STOP_AFTER_A_CALL = GOLDEN / "chat" / "vllm_tool_named.sse"


def test_frames_are_relayed_unchanged() -> None:
    assert run(relay(), [wire(*TEXT)]) == wire(*TEXT)


@pytest.mark.parametrize(
    "recording",
    [each for each in recordings("chat") if each not in (DEATH, STOP_AFTER_A_CALL)],
    ids=lambda path: path.stem,
)
def test_recordings_are_relayed_byte_for_byte(recording: Any) -> None:
    sent = recording.read_bytes()
    field = "reasoning_content" if b'"reasoning_content"' in sent else "reasoning"
    assert run(relay(include_usage=True, reasoning_fields=frozenset({field})), [sent]) == sent


def test_reads_may_be_split_anywhere() -> None:
    sent = wire(*TEXT, usage_only(**USAGE))
    for reads in every_split(sent):
        assert run(relay(model="ours"), reads) == run(relay(model="ours"), [sent])


def test_line_ends_comments_and_fields_become_plain_frames() -> None:
    frames = wire(*TEXT).replace(b"\n", b"\r\n")
    noisy = b"\xef\xbb\xbf: PROCESSING\r\n\r\nid: 1\r\nretry: 2\r\n" + frames.replace(b"data: ", b"data:")
    assert run(relay(), [noisy]).replace(b"data:", b"data: ").replace(b"  ", b" ") == wire(*TEXT)


def test_a_stream_without_done_gets_one() -> None:
    assert run(relay(), [wire(*TEXT, done=False)]) == wire(*TEXT)


def test_a_last_frame_without_its_blank_line_counts() -> None:
    assert run(relay(), [wire(*TEXT, done=False).rstrip(b"\n")]) == wire(*TEXT)


def test_a_second_done_and_later_frames_are_left_out() -> None:
    assert run(relay(), [wire(*TEXT) + wire(text_chunk("late")), wire(text_chunk("later"))]) == wire(*TEXT)


def test_done_is_sent_with_its_read() -> None:
    assert feed_to_end(relay(), wire(*TEXT)).endswith(sse.DONE_FRAME)


@pytest.mark.parametrize("model", [None, "mine"])
def test_reads_of_a_delta_run_are_relayed_in_the_same_way(model: str | None) -> None:
    relaying = relay(model=model)
    chunks = [{**each, "model": "theirs"} for each in TEXT]
    assert run(relaying, [wire(each, done=False) for each in chunks]) == wire(
        *({**each, "model": model or "theirs"} for each in chunks)
    )


def test_usage_is_read_but_sent_only_if_requested() -> None:
    relaying = relay()
    assert run(relaying, [wire(*TEXT, usage_only(**USAGE))]) == wire(*TEXT)
    assert relaying.usage is not None
    assert (relaying.usage.input, relaying.usage.output) == (5, 2)


def test_usage_is_sent_to_a_client_that_requested_it() -> None:
    sent = wire(*TEXT, usage_only(**USAGE))
    assert run(relay(include_usage=True), [sent]) == sent


def test_usage_after_done_is_sent_before_it() -> None:
    late = wire(*TEXT) + wire(usage_only(**USAGE), done=False)
    assert run(relay(include_usage=True), [late]) == wire(*TEXT, usage_only(**USAGE))


def test_null_usage_in_every_chunk_is_no_reason_to_open_it() -> None:
    chunks = [{**each, "usage": None} for each in TEXT]
    assert run(relay(), [wire(*chunks)]) == wire(*chunks)


def test_usage_in_the_last_content_chunk_stays() -> None:
    sent = wire(text_chunk("a"), {**chunk(finish="stop"), "usage": USAGE})
    relaying = relay()
    assert run(relaying, [sent]) == sent
    assert relaying.usage is not None


RENAMED: dict[str, Callable[[Json], bytes]] = {
    "compact JSON": lambda each: orjson.dumps(each),
    "JSON with spaces": lambda each: orjson.dumps(each).replace(b'":', b'": '),
}


@pytest.mark.parametrize("dump", RENAMED.values(), ids=RENAMED)
def test_every_chunk_has_the_gateways_model_name(dump: Callable[[Json], bytes]) -> None:
    sent = b"".join(sse.encode_data(dump(each)) for each in [*TEXT[:3], {**text_chunk("x"), "model": "m2"}, *TEXT[3:]])
    assert {each["model"] for each in chunks_of(run(relay(model="ours"), [sent]))} == {"ours"}


def test_text_that_looks_like_the_model_is_left_alone() -> None:
    sent = wire(text_chunk("a"), text_chunk('"model":"m" "finish_reason":"stop" "error"'), chunk(finish="stop"))
    out = chunks_of(run(relay(model="ours"), [sent]))
    assert out[1]["choices"][0]["delta"]["content"] == '"model":"m" "finish_reason":"stop" "error"'


def test_a_model_with_the_gateways_name_is_unchanged() -> None:
    assert run(relay(model="m"), [wire(*TEXT)]) == wire(*TEXT)


FIELDS: dict[str, tuple[frozenset[str], Json, Json]] = {
    "one field": (frozenset({"reasoning"}), {"reasoning_content": "hm"}, {"reasoning": "hm"}),
    "the other field": (frozenset({"reasoning_content"}), {"reasoning": "hm"}, {"reasoning_content": "hm"}),
    "both fields": (
        frozenset({"reasoning", "reasoning_content"}),
        {"reasoning": "hm", "content": None},
        {"reasoning": "hm", "reasoning_content": "hm", "content": None},
    ),
    "both fields that are there": (
        frozenset({"reasoning", "reasoning_content"}),
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
    ),
    "no field": (frozenset(), {"reasoning": "hm", "reasoning_details": [{"text": "hm"}]}, {}),
    "details stay with the field": (
        frozenset({"reasoning"}),
        {"reasoning": "hm", "reasoning_details": [{"text": "hm"}]},
        {"reasoning": "hm", "reasoning_details": [{"text": "hm"}]},
    ),
    "null fields are left alone": (
        frozenset({"reasoning"}),
        {"reasoning": None, "content": "a"},
        {"reasoning": None, "content": "a"},
    ),
}


@pytest.mark.parametrize(("fields", "delta", "expected"), FIELDS.values(), ids=FIELDS)
def test_reasoning_is_in_the_configured_fields_on_a_relay(fields: frozenset[str], delta: Json, expected: Json) -> None:
    out = chunks_of(run(relay(reasoning_fields=fields), [wire(text_chunk("a"), chunk(delta), chunk(finish="stop"))]))
    assert out[1]["choices"][0]["delta"] == expected


CONTENT: dict[str, tuple[Json, bool]] = {
    "a role": (chunk({"role": "assistant", "content": ""}), False),
    "a delta that is null": ({"choices": [{"index": 0, "delta": None}]}, False),
    "usage": (usage_only(**USAGE), False),
    "text": (text_chunk("a"), True),
    "reasoning": (thought("a"), True),
    "a call": (chunk({"tool_calls": [{"index": 0}]}), True),
    "a refusal": (chunk({"refusal": "no"}), True),
    "a regular end": (chunk(finish="stop"), True),
}


@pytest.mark.parametrize(("sent", "has_content"), CONTENT.values(), ids=CONTENT)
def test_content_is_output_that_a_retry_would_repeat(sent: Json, has_content: bool) -> None:
    relaying = relay()
    relaying.feed(wire(sent, done=False))
    assert relaying.has_content is has_content


def test_chunks_are_not_added_up_to_a_response() -> None:
    stream = relay()
    run(stream, [wire(text_chunk("a"), chunk(finish="stop"))])
    assert stream.ended
    assert stream.response is None


def test_a_chunk_that_needs_parsing_counts_once_in_the_final_message() -> None:
    """The upstream names another model in the middle, so the bytes of what the client reads are not where they were."""
    message = {"role": "assistant", "content": "abc"}
    chunks = [*TEXT[:2], text_chunk("b") | {"model": "another"}, text_chunk("c") | {"model": "another"}]
    last = chunk(finish="stop") | {"model": "another"}
    last["choices"][0]["message"] = message
    relaying = relay(model="asked")
    out = run(relaying, [wire(*chunks, last)])
    assert relaying.failed is None
    texts = [each["choices"][0]["delta"].get("content") or "" for each in chunks_of(out)]
    assert "".join(texts) == "abc"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_thought_that_is_a_number_becomes_a_text_among_frames_that_are_relayed_unread(at_once: bool) -> None:
    frames = [wire(text_chunk("a"), done=False), wire(chunk({"reasoning": 7, "content": "b"}), done=False)]
    frames.append(wire(chunk({}, "stop")))
    sent = run(relay(reasoning_fields=frozenset({"reasoning"})), [b"".join(frames)] if at_once else frames)
    assert [each["choices"][0]["delta"] for each in chunks_of(sent)] == [
        {"content": "a"},
        {"reasoning": "7", "content": "b"},
        {},
    ]


@pytest.mark.parametrize("at_once", [True, False])
def test_text_in_a_field_that_clients_do_not_read_fails_among_frames_that_are_relayed_unread(at_once: bool) -> None:
    frames = [wire(text_chunk("a"), done=False), wire(chunk({"text": "b"}), done=False), wire(chunk({}, "stop"))]
    relaying = relay()
    run(relaying, [b"".join(frames)] if at_once else frames)
    assert relaying.failed is not None
    assert relaying.failed.code == "upstream_garbled"
