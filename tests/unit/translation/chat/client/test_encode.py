"""Encodes events as a chat stream."""

from itertools import product
from typing import Any

import pytest

from tests.unit.support.chat_replies import (
    CITED,
    FAILED,
    LOGPROB,
    TURNS,
    accumulate,
    call,
    custom_call,
    read_stream,
    text,
    thought,
    turn,
)
from tests.unit.support.translator_drivers import feed_to_end
from translation.chat.client.completion import CompletionCollector
from translation.chat.client.encode import ChatEncoder
from translation.representation.events import Annotated, Delta, Event, Failed, Finished, Noted, Started
from translation.representation.json_types import Json

BOTH = frozenset({"reasoning", "reasoning_content"})
HEAD: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}


def encoder(**more: Any) -> ChatEncoder:
    settings: Json = {"reasoning_fields": BOTH, "include_usage": False, **more}
    return ChatEncoder(completion_id="chatcmpl-1", created=7, model="m", **settings)


def stream(events: list[Event], **more: Any) -> list[Json]:
    return read_stream(feed_to_end(encoder(**more), events))


def deltas(events: list[Event], **more: Any) -> list[Json]:
    return [choice["delta"] for chunk in stream(events, **more) for choice in chunk["choices"]]


@pytest.mark.parametrize("events", TURNS.values(), ids=TURNS)
def test_a_stream_adds_up_to_the_completion(events: list[Event]) -> None:
    for fields, legacy_functions, include_usage in product(
        (BOTH, frozenset(["reasoning"]), frozenset[str]()), (True, False), (True, False)
    ):
        check_sum(events, fields, legacy_functions, include_usage)


def check_sum(events: list[Event], fields: frozenset[str], legacy_functions: bool, include_usage: bool) -> None:
    chunks = stream(events, reasoning_fields=fields, legacy_functions=legacy_functions, include_usage=include_usage)
    collector = CompletionCollector(
        completion_id="chatcmpl-1", created=7, model="m", reasoning_fields=fields, legacy_functions=legacy_functions
    )
    collector.feed(events)
    completion = collector.result()
    streamed = accumulate(chunks)
    whole = completion["choices"][0]
    if not whole["message"]["content"]:
        # A stream that begins with text opens with "", which clients cannot distinguish from no text.
        streamed["message"]["content"] = whole["message"]["content"]
    assert streamed == whole
    counted = [chunk["usage"] for chunk in chunks if not chunk["choices"]]
    assert counted == ([completion["usage"]] if include_usage and "usage" in completion else [])


@pytest.mark.parametrize("events", TURNS.values(), ids=TURNS)
def test_how_events_are_batched_does_not_matter(events: list[Event]) -> None:
    assert feed_to_end(encoder(), *([event] for event in events)) == feed_to_end(encoder(), events)


@pytest.mark.parametrize("events", TURNS.values(), ids=TURNS)
def test_every_chunk_has_the_same_identity(events: list[Event]) -> None:
    for chunk in stream(events, include_usage=True):
        assert {key: chunk[key] for key in HEAD} == HEAD


DELTAS: dict[str, tuple[list[Event], list[Json]]] = {
    "the role comes first, with empty content before text": (
        turn(text(0, "a", "b")),
        [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {}],
    ),
    "the role comes first, with no content before anything else": (
        turn(thought(0, "a")),
        [{"role": "assistant", "content": None}, {"reasoning": "a", "reasoning_content": "a"}, {}],
    ),
    "the role comes even when nothing else does": (turn(), [{"role": "assistant", "content": ""}, {}]),
    "a call is opened with id, type and name, then only its arguments grow": (
        turn(text(0, "a"), call(1, "f", "{", "}")),
        [
            {"role": "assistant", "content": ""},
            {"content": "a"},
            {
                "tool_calls": [
                    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
                ]
            },
            {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
            {},
        ],
    ),
    "a custom call has an input instead": (
        turn(custom_call(0, "c", "x")),
        [
            {"role": "assistant", "content": None},
            {"tool_calls": [{"index": 0, "id": "call_0", "type": "custom", "custom": {"name": "c", "input": ""}}]},
            {"tool_calls": [{"index": 0, "custom": {"input": "x"}}]},
            {},
        ],
    ),
    "arguments known at the start are sent at the start": (
        TURNS["items that came whole"],
        [
            {"role": "assistant", "content": None},
            {"reasoning": "a", "reasoning_content": "a"},
            {"content": "b"},
            {
                "tool_calls": [
                    {"index": 0, "id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ]
            },
            {},
        ],
    ),
}


@pytest.mark.parametrize(("events", "expected"), DELTAS.values(), ids=DELTAS)
def test_deltas_have_the_form_that_clients_expect(events: list[Event], expected: list[Json]) -> None:
    assert deltas(events) == expected


def test_clients_with_legacy_functions_get_function_calls() -> None:
    chunks = stream(turn(call(0, "f", "{}"), call(1, "g")), legacy_functions=True)
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": None},
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"


def test_a_citation_ahead_of_its_text_begins_where_that_text_will() -> None:
    later = text(1, "b")
    cited = [*later[:2], Annotated(1, 0, CITED), *later[2:]]
    written = deltas(turn(text(0, "aa"), cited))
    (citation,) = [delta["annotations"][0]["url_citation"] for delta in written if "annotations" in delta]
    assert (citation["start_index"], citation["end_index"]) == (2, 3)


def test_with_usage_every_chunk_has_null_and_the_last_has_no_choices() -> None:
    *chunks, last = stream(TURNS["usage at the end"], include_usage=True)
    assert all(chunk["choices"] and chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }


def test_without_usage_no_chunk_has_the_field() -> None:
    assert not any("usage" in chunk for chunk in stream(TURNS["usage at the end"]))


def test_unreported_counts_are_not_invented() -> None:
    assert all(chunk["choices"] for chunk in stream(TURNS["usage by half"], include_usage=True))


def test_facts_are_on_every_chunk_from_then_on() -> None:
    chunks = stream(TURNS["facts learnt late"])
    assert {chunk["service_tier"] for chunk in chunks} == {"flex"}
    assert [chunk.get("system_fingerprint") for chunk in chunks] == [None, None, None, "fp", "fp", "fp"]


def test_logprobs_are_on_their_delta() -> None:
    chunks = stream(TURNS["logprobs"])
    assert [chunk["choices"][0]["logprobs"] for chunk in chunks] == [
        None,
        {"content": [LOGPROB], "refusal": None},
        {"content": [LOGPROB], "refusal": None},
        {"content": None, "refusal": [LOGPROB]},
        None,
    ]


@pytest.mark.parametrize(
    ("include_usage", "usage"), [(True, {"usage": None}), (False, {})], ids=["with usage", "without usage"]
)
def test_a_failure_is_the_last_chunk(include_usage: bool, usage: Json) -> None:
    *_, last = stream(turn(text(0, "a")[:3], end=FAILED), include_usage=include_usage)
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "error"}
    error = {"message": "slow down", "type": "rate_limit_error", "param": "p", "code": "rate_limit_exceeded"}
    assert last == {**HEAD, "choices": [choice], **usage, "error": error}


def test_nothing_is_written_before_the_first_content() -> None:
    started = encoder()
    assert started.feed([Started("m"), *text(0)[:2]]) == b""
    assert not started.ended
    assert started.feed([Delta(0, 0, "a")]).count(b"\n\n") == 2


@pytest.mark.parametrize("end", [Finished("stop"), FAILED], ids=["finished", "failed"])
def test_the_encoder_knows_when_it_has_ended(end: Event) -> None:
    ended = encoder()
    ended.feed(turn(text(0, "a"), end=end))
    assert ended.ended
    assert ended.usage == getattr(end, "usage", None)


def test_a_model_name_cannot_break_a_frame() -> None:
    odd = ChatEncoder(completion_id="c", created=1, model='"\x00"\n%s', reasoning_fields=BOTH, include_usage=False)
    chunks = read_stream(feed_to_end(odd, turn(text(0, "\x00", "a"))))
    assert {chunk["model"] for chunk in chunks} == {'"\x00"\n%s'}
    assert accumulate(chunks)["message"]["content"] == "\x00a"


def test_an_error_without_a_better_name_keeps_its_code() -> None:
    *_, last = stream(turn(end=Failed("upstream_truncated", "gone")))
    assert last["error"] == {"message": "gone", "type": "server_error", "param": None, "code": "upstream_truncated"}


def test_an_unsent_end_can_still_become_a_failure() -> None:
    encoding = encoder(include_usage=True)
    frames = encoding.feed(TURNS["usage at the end"])
    assert encoding.ended
    chunks = read_stream(frames + feed_to_end(encoding, [FAILED]))
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0]["finish_reason"] == "error"
    assert encoding.ended


@pytest.mark.parametrize("end", [Finished("stop"), FAILED], ids=["finished", "failed"])
def test_warnings_about_calls_are_at_the_end(end: Event) -> None:
    warnings = [{"name": "f", "why": "the arguments are not valid JSON"}]
    *before, last = stream(turn(call(0, "f", "?"), Noted(facts={"tool_warnings": warnings}), end=end))
    assert last["tool_warnings"] == warnings
    assert not any("tool_warnings" in chunk for chunk in before)


@pytest.mark.parametrize("events", TURNS.values(), ids=TURNS)
def test_a_stream_has_the_extensions_of_the_completion(events: list[Event]) -> None:
    collector = CompletionCollector(
        completion_id="chatcmpl-1", created=7, model="m", reasoning_fields=BOTH, extensions=True
    )
    collector.feed(events)
    chunks = stream(events, extensions=True, include_usage=True)
    found = [chunk["extensions"] for chunk in chunks if "extensions" in chunk]
    assert found == [collector.result()["extensions"]]
    (last,) = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["finish_reason"]]
    assert "extensions" in last


def test_calls_that_the_gateway_ran_are_in_the_extensions_only() -> None:
    calls = [{"type": "mcp_call", "name": "add", "output": "5"}]
    events = turn(text(0, "5"), Noted(facts={"mcp_calls": calls}), Noted(facts={"service_tier": "default"}))
    (*_, last) = stream(events, extensions=True)
    assert last["extensions"]["mcp_calls"] == calls
    assert "mcp_calls" not in str(stream(events))


def test_a_stream_has_no_extensions_unless_requested() -> None:
    assert not any("extensions" in chunk for chunk in stream(turn(thought(0, "h"), call(1, "f", "{}"))))
