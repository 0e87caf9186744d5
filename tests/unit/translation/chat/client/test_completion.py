"""Collects events to a chat completion."""

from typing import Any

import pytest

from tests.unit.support.chat_replies import (
    CITED,
    COMPLETION,
    DETAILS,
    FAILED,
    FILE_CITED,
    LOGPROB,
    TURNS,
    USAGE,
    call,
    text,
    thought,
    turn,
)
from translation.chat.client.completion import CompletionCollector
from translation.representation.events import Event, ItemEnded, Noted, PartEnded, Started
from translation.representation.items import new_function_call
from translation.representation.json_types import Json

BOTH = frozenset({"reasoning", "reasoning_content"})


def collector(**more: Any) -> CompletionCollector:
    return CompletionCollector(completion_id="chatcmpl-1", created=7, model="m", **{"reasoning_fields": BOTH, **more})


def collect(events: list[Event], **more: Any) -> Json:
    collected = collector(**more)
    collected.feed(events)
    return collected.result()


@pytest.mark.parametrize("extensions", [True, False], ids=["extensions", "plain"])
@pytest.mark.parametrize("events", TURNS.values(), ids=TURNS)
def test_completions_are_accepted_by_the_official_sdk(events: list[Event], extensions: bool) -> None:
    COMPLETION.validate_python(collect(events, extensions=extensions), strict=True)


MESSAGES: dict[str, Json] = {
    "a text": {"content": 'Hello "you"\né\u2028🙂'},
    "nothing at all": {"content": ""},
    "two texts": {"content": "ab"},
    "a text and a refusal": {"content": "a", "refusal": "no"},
    "reasoning, then text": {"content": "a", "reasoning": "hm", "reasoning_content": "hm"},
    "raw reasoning cut by text is one text": {"content": "x", "reasoning": "ab", "reasoning_content": "ab"},
    "summaries are paragraphs": {"reasoning": "ab\n\nc\n\nd", "reasoning_content": "ab\n\nc\n\nd"},
    "parts of raw reasoning are paragraphs": {"reasoning": "a\n\nb", "reasoning_content": "a\n\nb"},
    "reasoning with details": {
        "reasoning": "a",
        "reasoning_content": "a",
        "reasoning_details": [*DETAILS, *DETAILS],
    },
    "interleaved calls": {
        "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "call_1", "type": "function", "function": {"name": "g", "arguments": "[]"}},
        ]
    },
    "a custom call": {"tool_calls": [{"id": "call_0", "type": "custom", "custom": {"name": "c", "input": "xy"}}]},
    "citations": {
        "content": "a",
        "annotations": [
            {"type": "url_citation", "url_citation": {key: CITED[key] for key in CITED if key != "type"}},
        ],
    },
    "citations of a later message": {
        "content": "I search. ab",
        "reasoning": "hm",
        "reasoning_content": "hm",
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {"url": "u", "title": "t", "start_index": 10, "end_index": 11},
            },
        ],
    },
    "what chat has no word for": {"content": "a"},
}


@pytest.mark.parametrize(("name", "expected"), MESSAGES.items(), ids=MESSAGES)
def test_the_message_has_everything_that_chat_can_express(name: str, expected: Json) -> None:
    message = collect(TURNS[name])["choices"][0]["message"]
    assert message == {"role": "assistant", "content": None, "refusal": None, **expected}


ENDINGS: dict[str, Json] = {
    "a text": {"finish_reason": "stop"},
    "a text that was cut": {"finish_reason": "length"},
    "a text that was filtered": {"finish_reason": "content_filter"},
    "a text that ended in a way of its own": {"finish_reason": "stop", "native_finish_reason": "repetition"},
    "a text that ended for no reason": {"finish_reason": "stop"},
    "a call": {"finish_reason": "tool_calls"},
    "a call without any field": {"finish_reason": "tool_calls"},
    "a call that was cut": {"finish_reason": "length"},
    "a word of calls without a call": {"finish_reason": "stop"},
}


@pytest.mark.parametrize(("name", "expected"), ENDINGS.items(), ids=ENDINGS)
def test_the_finish_reason_is_correct(name: str, expected: Json) -> None:
    choice = collect(TURNS[name])["choices"][0]
    assert {key: value for key, value in choice.items() if key.endswith("finish_reason")} == expected


def test_identity_facts_and_usage_are_present() -> None:
    completion = collect(TURNS["usage on the way"])
    assert (completion["id"], completion["object"], completion["created"], completion["model"]) == (
        "chatcmpl-1",
        "chat.completion",
        7,
        "m",
    )
    assert completion["usage"]["total_tokens"] == 15
    facts = collect(TURNS["facts learnt late"])
    assert (facts["system_fingerprint"], "service_tier" in facts) == ("fp", False)


def test_unreported_usage_is_left_out() -> None:
    assert "usage" not in collect(TURNS["usage by half"])
    assert collect(TURNS["usage without details"])["usage"] == {
        "prompt_tokens": 1,
        "completion_tokens": 0,
        "total_tokens": 1,
    }


def test_logprobs_are_the_answers() -> None:
    choice = collect(TURNS["logprobs"])["choices"][0]
    assert choice["logprobs"] == {"content": [LOGPROB, LOGPROB], "refusal": [LOGPROB]}
    assert collect(TURNS["a text"])["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (BOTH, {"reasoning": "hm", "reasoning_content": "hm"}),
        (frozenset({"reasoning_content"}), {"reasoning_content": "hm"}),
        (frozenset(), {}),
    ],
    ids=["both", "one", "none"],
)
def test_reasoning_is_in_the_configured_fields(fields: frozenset[str], expected: Json) -> None:
    message = collect(turn(thought(0, "hm"), text(1, "a")), reasoning_fields=fields)["choices"][0]["message"]
    assert {key: value for key, value in message.items() if "reasoning" in key} == expected


def test_extensions_have_each_chunk_unchanged() -> None:
    completion = collect(turn(thought(0, "h", "m"), text(1, "a", "b"), call(2, "f", "{", "}")), extensions=True)
    assert completion["extensions"] == {
        "reasoning_chunks": ["h", "m"],
        "tool_call_chunks": [
            {"index": 0, "id": "call_2", "type": "function", "function": {"name": "f", "arguments": ""}},
            {"index": 0, "function": {"arguments": "{"}},
            {"index": 0, "function": {"arguments": "}"}},
            {"index": 0, "status": "completed"},
        ],
    }


def test_extensions_cite_files_at_their_place_in_the_whole_answer() -> None:
    completion = collect(TURNS["citations of a later message"], extensions=True)
    assert completion["extensions"]["file_citations"] == [{**FILE_CITED, "index": 10}]


def test_extensions_report_a_truncated_call() -> None:
    begun, piece, *_ = call(0, "f", "{")
    cut: list[Event] = [begun, piece, PartEnded(0, None), ItemEnded(0, status="incomplete")]
    final = {**new_function_call("fc_1", call_id="call_1", name="g"), "status": "completed"}
    whole = [*call(1, "g")[:-1], ItemEnded(1, final)]
    chunks = collect(turn(cut, whole), extensions=True)["extensions"]["tool_call_chunks"]
    assert [chunk for chunk in chunks if "status" in chunk] == [
        {"index": 0, "status": "incomplete"},
        {"index": 1, "status": "completed"},
    ]


def test_clients_with_legacy_functions_get_function_calls() -> None:
    choice = collect(turn(call(0, "f", "{}"), call(1, "g")), legacy_functions=True)["choices"][0]
    assert choice["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert [each["id"] for each in choice["message"]["tool_calls"]] == ["call_1"]
    assert choice["finish_reason"] == "function_call"


def test_a_turn_that_failed_has_no_completion() -> None:
    failed = collector()
    failed.feed(turn(text(0, "a")[:3], end=FAILED))
    assert failed.failed == FAILED
    assert failed.usage == USAGE
    with pytest.raises(ValueError, match="not finished"):
        failed.result()


def test_an_unfinished_turn_has_no_completion_yet() -> None:
    running = collector()
    running.feed([Started("m")])
    assert running.failed is None
    with pytest.raises(ValueError, match="not finished"):
        running.result()


def test_warnings_about_calls_are_beside_them() -> None:
    warnings = [{"name": "f", "why": "the arguments are not valid JSON"}]
    assert collect(turn(call(0, "f", "?"), Noted(facts={"tool_warnings": warnings})))["tool_warnings"] == warnings
    assert "tool_warnings" not in collect(turn(call(0, "f", "{}"), Noted(facts={"service_tier": "flex"})))
