"""Decodes replies of the Messages API to events."""

from typing import Any

import pytest

from tests.unit.support.translator_drivers import collect
from tests.unit.translation.messages.upstream.decoded_items import RUN, events_of, items_of, message_item
from tests.upstream.anthropic import (
    block,
    call_block,
    closing,
    given,
    message,
    opening,
    text_block,
    text_deltas,
    text_events,
    thinking_block,
    thought,
)
from translation.representation.events import Finished, Noted, Progressed, Started
from translation.representation.json_types import Item, Json
from translation.representation.profile import Profile

SUMMARIES = Profile(reasoning_part="summary_text")


def call_item(arguments: str, status: str = "completed", number: int = 1, call_id: str = "toolu_1") -> Item:
    return {
        "id": f"fc_{number}",
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": "f",
        "arguments": arguments,
    }


def signed(thinking: str = "", signature: str = "s1") -> Json:
    return {"type": "anthropic.thinking", "thinking": thinking, "signature": signature}


def thought_item(text: str, *details: Json, number: int = 1, **more: Any) -> Item:
    whole: Item = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
    if text:
        whole["content"] = [{"type": "reasoning_text", "text": text}]
    return {**whole, **({"details": list(details)} if details else {}), **more}


REDACTED = {"type": "redacted_thinking", "data": "d1"}
HIDDEN = {"type": "anthropic.redacted_thinking", "data": "d1"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "https://a"}]}
SOURCES: list[Json] = [{"type": "url", "url": "https://a"}]


def search_item(query: str = "", *, input: Json | None = None, **more: Any) -> Item:
    body = {"type": "anthropic.server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": input or {}}
    return {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": query, "sources": SOURCES},
        "details": [body, {**FOUND, "type": "anthropic.web_search_tool_result"}],
        **more,
    }


def test_a_text() -> None:
    *_, finished = events = events_of(*text_events("Hel", "lo"))
    assert events[0] == Started("scripted-model", "msg_1")
    assert collect(events) == [message_item("Hello")]
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw_reason) == ("stop", "end_turn")
    assert finished.usage is not None
    assert (finished.usage.input, finished.usage.output) == (9, 3)


def test_a_tier_is_a_fact() -> None:
    facts = [event.facts for event in events_of(*text_events("a")) if isinstance(event, Noted)]
    assert facts == [{"service_tier": "default"}, None]


ANSWERS: dict[str, tuple[list[Json], list[Json], list[Item]]] = {
    "thinking, then a text": (
        [*block(0, thinking_block(), *thought("H", "m.")), *block(1, text_block(), *text_deltas("a"))],
        [thinking_block("Hm.", "s1"), text_block("a")],
        [thought_item("Hm.", signed("Hm.")), message_item("a")],
    ),
    "thinking without words": (
        [*block(0, thinking_block(), *thought()), *block(1, text_block(), *text_deltas("a"))],
        [thinking_block("", "s1"), text_block("a")],
        [thought_item("", signed()), message_item("a")],
    ),
    "unreadable thinking": (
        [*block(0, REDACTED), *block(1, text_block(), *text_deltas("a"))],
        [REDACTED, text_block("a")],
        [thought_item("", HIDDEN), message_item("a")],
    ),
    "one thought after the other": (
        [*block(0, thinking_block(), *thought("a")), *block(1, thinking_block(), *thought("b", signature="s2"))],
        [thinking_block("a", "s1"), thinking_block("b", "s2")],
        [thought_item("a", signed("a")), thought_item("b", signed("b", "s2"), number=2)],
    ),
    "thinking between calls": (
        [
            *block(0, thinking_block(), *thought("a")),
            *block(1, call_block("f"), *given("", '{"x"', ":1}")),
            *block(2, thinking_block(), *thought("b", signature="s2")),
            *block(3, call_block("f", "toolu_2"), *given('{"x":2}')),
        ],
        [
            thinking_block("a", "s1"),
            call_block("f", x=1),
            thinking_block("b", "s2"),
            call_block("f", "toolu_2", x=2),
        ],
        [
            thought_item("a", signed("a")),
            call_item('{"x":1}'),
            thought_item("b", signed("b", "s2"), number=2),
            call_item('{"x":2}', number=2, call_id="toolu_2"),
        ],
    ),
    "text, a call and text": (
        [
            *block(0, text_block(), *text_deltas("a")),
            *block(1, call_block("f"), *given("{}")),
            *block(2, text_block(), *text_deltas("b")),
        ],
        [text_block("a"), call_block("f"), text_block("b")],
        [message_item("a"), call_item("{}"), message_item("b", number=2)],
    ),
    "texts in one": (
        [*block(0, text_block(), *text_deltas("a")), *block(1, text_block(), *text_deltas("b"))],
        [text_block("a"), text_block("b")],
        [message_item("ab")],
    ),
    "a call without arguments": (
        block(0, call_block("f")),
        [call_block("f")],
        [call_item("{}")],
    ),
    "calls of one id": (
        [*block(0, call_block("f")), *block(1, call_block("f"))],
        [call_block("f"), call_block("f")],
        [call_item("{}"), call_item("{}", number=2, call_id="toolu_1__2")],
    ),
    "a call without an id": (
        block(0, call_block("f", "")),
        [call_block("f", "")],
        [call_item("{}", call_id="tc_1")],
    ),
    "nothing": ([], [], []),
    "empty texts": (block(0, text_block(), *text_deltas("")), [text_block("")], []),
    "what is newer than this": (
        [*block(0, RUN, *given('{"query"')), *block(1, text_block(), {"type": "new"}, *text_deltas("a"))],
        [RUN, text_block("a")],
        [message_item("a")],
    ),
    "a search": (
        [
            *block(0, text_block(), *text_deltas("a")),
            *block(1, SEARCH, *given("", '{"query":', '"b"}')),
            *block(2, FOUND),
            *block(3, text_block(), *text_deltas("c")),
        ],
        [text_block("a"), {**SEARCH, "input": {"query": "b"}}, FOUND, text_block("c")],
        [message_item("a"), search_item("b", input={"query": "b"}), message_item("c", number=2)],
    ),
    "results without a call": (block(0, FOUND), [FOUND], []),
}


@pytest.mark.parametrize(("events", "content", "items"), ANSWERS.values(), ids=ANSWERS)
def test_a_stream_and_a_whole_message_give_the_same_events(
    events: list[Json], content: list[Json], items: list[Item]
) -> None:
    assert items_of(opening(), *events, *closing()) == items
    assert items_of(message(*content)) == items


def test_a_search_reports_progress() -> None:
    events = events_of(opening(), *block(0, SEARCH), *block(1, FOUND), *closing())
    assert [event.phase for event in events if isinstance(event, Progressed)] == [
        "in_progress",
        "searching",
        "completed",
    ]


def test_a_search_that_failed_has_failed() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    told = {**FOUND, "content": error}
    [item] = items_of(opening(), *block(0, SEARCH, *given("[]")), *block(1, told), *closing())
    details = [search_item()["details"][0], {**told, "type": "anthropic.web_search_tool_result"}]
    action = {"type": "search", "query": ""}
    assert item == search_item(status="failed", details=details, action=action, error="max_uses_exceeded")


def test_a_search_without_an_end_has_failed() -> None:
    [item] = items_of(opening(), *block(0, SEARCH, *given('{"query":1}')), *closing("max_tokens"))
    action = {"type": "search", "query": ""}
    expected = search_item(status="failed", action=action)
    assert item == {key: value for key, value in expected.items() if key != "details"}


def test_a_search_that_waits_for_the_next_request_is_incomplete() -> None:
    [item] = items_of(opening(), *block(0, SEARCH, *given('{"query":"b"}')), *closing("pause_turn"))
    call = search_item(input={"query": "b"})["details"][0]
    assert item == search_item(status="incomplete", action={"type": "search", "query": "b"}, details=[call])


def test_thinking_is_a_summary_where_the_profile_says_so() -> None:
    items = items_of(opening(), *block(0, thinking_block(), *thought("a")), *closing(), profile=SUMMARIES)
    assert items == [
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "a"}],
            "details": [signed("a")],
        }
    ]


def test_a_signature_may_come_in_pieces() -> None:
    pieces = [{"type": "signature_delta", "signature": piece} for piece in ("s", "i", "g")]
    deltas = [*thought("a", signature="")[:1], *pieces]
    items = items_of(opening(), *block(0, thinking_block(), *deltas), *closing())
    assert items == [thought_item("a", signed("a", "sig"))]
    begun = {**thinking_block(), "signature": "be"}
    items = items_of(opening(), *block(0, begun, *deltas), *closing())
    assert items == [thought_item("a", signed("a", "besig"))]


@pytest.mark.parametrize("words", ["a", ""])
def test_truncated_thinking_has_no_signature_and_no_details(words: str) -> None:
    items = items_of(opening(), *block(0, thinking_block(), *thought(words, signature="")), *closing("max_tokens"))
    assert items == ([thought_item("a", status="incomplete")] if words else [])


def test_complete_thinking_before_the_token_limit_is_complete() -> None:
    items = items_of(opening(), *block(0, thinking_block(), *thought("a")), *closing("max_tokens"))
    assert items == [thought_item("a", signed("a"))]


def test_a_call_that_was_cut_off_is_incomplete() -> None:
    cut = block(0, call_block("f"), *given('{"x'))[:-1]
    assert items_of(opening(), *cut, *closing("max_tokens")) == [call_item('{"x', "incomplete")]
    assert items_of(opening(), *block(0, call_block("f")), *closing("max_tokens")) == [call_item("", "incomplete")]


def test_a_text_that_was_cut_off_is_incomplete() -> None:
    items = items_of(opening(), *block(0, text_block(), *text_deltas("a")), *closing("max_tokens"))
    assert items == [message_item("a", "incomplete")]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({}, "{}"), ([], "[]"), (None, "null"), ("", "{}"), ('{"x":', '{"x":'), ([1], "[1]"), (0, "0"), (False, "false")],
)
def test_arguments_that_are_no_object_are_preserved_unchanged(arguments: Any, text: str) -> None:
    odd = {**call_block("f"), "input": arguments}
    assert items_of(message(odd, stop_reason="tool_use")) == [call_item(text)]
    assert items_of(opening(), *block(0, odd), *closing("tool_use")) == [call_item(text)]


@pytest.mark.parametrize("placeholder", [{}, [], None, ""])
def test_streamed_arguments_replace_the_initial_ones(placeholder: Any) -> None:
    stream = block(0, {**call_block("f"), "input": placeholder}, *given('{"x"', ":1}"))
    assert items_of(opening(), *stream, *closing("tool_use")) == [call_item('{"x":1}')]


def test_a_call_without_arguments_has_none() -> None:
    bare = {"type": "tool_use", "id": "toolu_1", "name": "f"}
    assert items_of(message(bare, stop_reason="tool_use")) == [call_item("{}")]


def test_arguments_sent_with_the_call_are_not_repeated() -> None:
    assert items_of(opening(), *block(0, call_block("f", x=1), *given('{"x":1}')), *closing()) == [call_item('{"x":1}')]
