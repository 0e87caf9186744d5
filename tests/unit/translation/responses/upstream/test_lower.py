"""Turns as request bodies of a Responses upstream."""

from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.responses.upstream.lower import lower, lower_items

USER: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
EMPTY: Json = {"type": "object", "properties": {}}
FUNCTION: Json = {"type": "function", "name": "f", "parameters": EMPTY, "strict": True}
BARE: Json = {"model": "m", "input": [USER], "store": False, "stream": True}


def lowered(profile: Profile = DEFAULT_PROFILE, **params: Any) -> LoweredRequest:
    return lower(Turn(**{"model": "m", "items": [USER], **params}), profile)


BODIES: dict[str, tuple[Json, Json]] = {
    "nothing but a message": ({}, {}),
    "no stream": ({"stream": False}, {"stream": False}),
    "instructions": ({"instructions": "Be brief."}, {"instructions": "Be brief."}),
    "tools": (
        {"tools": [FUNCTION], "tool_choice": "auto", "parallel_tool_calls": False},
        {"tools": [FUNCTION], "tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "a function without parameters has none": (
        {"tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]},
        {"tools": [{"type": "function", "name": "f", "parameters": EMPTY}, {"type": "web_search"}]},
    ),
    "a function whose parameters are any object": (
        {"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]},
        {"tools": [{"type": "function", "name": "f", "parameters": EMPTY}]},
    ),
    "a search, and its sources": (
        {"tools": [{"type": "web_search", "max_uses": 2}], "search_sources": True},
        {
            "tools": [{"type": "web_search"}],
            "max_tool_calls": 2,
            "include": ["web_search_call.action.sources"],
        },
    ),
    "no sources without a search": (
        {"tools": [{"type": "custom", "name": "f"}], "search_sources": True},
        {"tools": [{"type": "custom", "name": "f"}]},
    ),
    "nothing about tools without tools": ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}),
    "sampling": (
        {"sampling": {"temperature": 0.0, "top_p": 0.5, "user": "u", "metadata": {"a": "b"}, "store": False, "n": 1}},
        {"temperature": 0.0, "top_p": 0.5, "user": "u", "metadata": {"a": "b"}},
    ),
    "log probabilities": (
        {"sampling": {"logprobs": True, "top_logprobs": 3}},
        {"include": ["message.output_text.logprobs"], "top_logprobs": 3},
    ),
    "no log probabilities": ({"sampling": {"logprobs": False, "top_logprobs": 3}}, {}),
    "the length": ({"max_output_tokens": 100}, {"max_output_tokens": 100}),
    "structured output": (
        {"text_format": {"type": "json_object"}, "verbosity": "low"},
        {"text": {"format": {"type": "json_object"}, "verbosity": "low"}},
    ),
    "reasoning": (
        {"reasoning": {"effort": "low", "summary": "auto"}},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    "thinking, which an effort turns on": (
        {"thinking": True, "reasoning": {"effort": "high"}},
        {"reasoning": {"effort": "high"}},
    ),
}


@pytest.mark.parametrize(("params", "expected"), BODIES.values(), ids=BODIES)
def test_parameters_of_a_turn_are_sent(params: Json, expected: Json) -> None:
    assert lowered(**params) == LoweredRequest({**BARE, **expected}, [])


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "f"}, {"type": "custom", "name": "f"}])
def test_a_choice_of_a_tool_without_tools_is_refused(choice: str | Json) -> None:
    with pytest.raises(InvalidRequest, match="tool_choice asks for a tool, but there are no tools") as refusal:
        lowered(tools=[], tool_choice=choice)
    assert refusal.value.param == "tool_choice"


LOSSES: dict[str, tuple[Json, Json, list[Loss]]] = {
    "being stored": ({"sampling": {"store": True}}, {}, [Loss("store", "dropped")]),
    "penalties and seed": (
        {"sampling": {"presence_penalty": 1.0, "frequency_penalty": 0.0, "seed": 7}},
        {},
        [Loss("presence_penalty", "dropped"), Loss("seed", "dropped")],
    ),
    "fewer tokens than the upstream accepts": (
        {"max_output_tokens": 1},
        {"max_output_tokens": 16},
        [Loss("max_output_tokens", "raised to 16")],
    ),
    "a reasoning budget": ({"reasoning": {"max_tokens": 5}}, {}, [Loss("reasoning.max_tokens", "dropped")]),
    "thinking with a budget": (
        {"thinking": True, "reasoning": {"max_tokens": 2049}},
        {"reasoning": {"effort": "medium"}},
        [Loss("reasoning.max_tokens", "as effort medium")],
    ),
    "thinking with a large budget": (
        {"thinking": True, "reasoning": {"max_tokens": 30_000, "summary": "auto"}},
        {"reasoning": {"effort": "high", "summary": "auto"}},
        [Loss("reasoning.max_tokens", "as effort high")],
    ),
    "the thinking switch": ({"thinking": False}, {}, [Loss("thinking", "dropped")]),
    "the thinking switch, against the effort": (
        {"thinking": False, "reasoning": {"effort": "high"}},
        {"reasoning": {"effort": "high"}},
        [Loss("thinking", "dropped")],
    ),
    "unknown parameters": ({"extra": {"top_k": 3}}, {}, [Loss("top_k", "dropped")]),
}


@pytest.mark.parametrize(("params", "expected", "losses"), LOSSES.values(), ids=LOSSES)
def test_parameters_without_an_equivalent_are_reported(params: Json, expected: Json, losses: list[Loss]) -> None:
    assert lowered(**params) == LoweredRequest({**BARE, **expected}, losses)


@pytest.mark.parametrize(("param", "value"), [("logit_bias", {"5": -100}), ("n", 2)])
def test_parameters_that_would_change_the_answer_are_refused(param: str, value: Any) -> None:
    with pytest.raises(Unrepresentable) as refused:
        lowered(sampling={param: value})
    assert refused.value.param == param


def test_a_profile_can_allow_more_parameters() -> None:
    profile = Profile(
        extra_params=frozenset({"seed", "stop", "top_k"}),
        thinking_switch="chat_template_kwargs",
    )
    result = lowered(profile, sampling={"seed": 7, "stop": ["x"]}, extra={"top_k": 3}, thinking=False)
    said = {"seed": 7, "stop": ["x"], "top_k": 3, "chat_template_kwargs": {"enable_thinking": False}}
    assert result == LoweredRequest({**BARE, **said}, [])


OTHERS: Json = {"id": "x_1", "status": "completed", "unheard_of": 1}

TEXT: Json = {"type": "output_text", "text": "a"}
CITED: Json = {"type": "file_citation", "file_id": "file_1", "filename": "a.txt", "index": 1}

REFUSAL: Item = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
MEDIA: Item = {
    "type": "message",
    "role": "user",
    "content": [
        {"type": "input_image", "image_url": "https://a/b.png", "detail": "low"},
        {"type": "input_file", "file_id": "file_1"},
    ],
}
ITEMS: dict[str, tuple[Item, Item]] = {
    "images and files are sent as they are": (MEDIA, MEDIA),
    "refusals remain refusals": (REFUSAL, REFUSAL),
    "messages lose their ids": ({**OTHERS, **USER}, USER),
    "citations of files without an id, which another API read": (
        {
            "type": "message",
            "role": "assistant",
            "content": [{**TEXT, "annotations": [CITED, {**CITED, "file_id": ""}]}],
        },
        {"type": "message", "role": "assistant", "content": [{**TEXT, "annotations": [CITED]}]},
    ),
    "assistant text has annotations": (
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "logprobs": []}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
    ),
    "phases and refusals stay": (
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "content": [{"type": "refusal", "refusal": "no"}],
        },
        {
            "type": "message",
            "role": "assistant",
            "phase": "final_answer",
            "content": [{"type": "refusal", "refusal": "no"}],
        },
    ),
    "calls": (
        {**OTHERS, "type": "function_call", "call_id": "c", "name": "f", "arguments": "", "namespace": None},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
    ),
    "outputs": (
        {**OTHERS, "type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a"}]},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "a"}]},
    ),
    "outputs that failed are incomplete": (
        {"type": "function_call_output", "call_id": "c", "output": "no", "status": "failed"},
        {"type": "function_call_output", "call_id": "c", "output": "no", "status": "incomplete"},
    ),
    "custom calls": (
        {**OTHERS, "type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
        {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
    ),
    "sealed reasoning keeps its id": (
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e", "details": [], "content": None},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
    ),
    "what the upstream ran itself stays as it is": (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "a"}},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "a"}},
    ),
}


SEARCHED: Item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def test_foreign_searches_are_sent_back_without_their_own_fields() -> None:
    sources = [{"type": "url", "url": "u", "title": "U"}, {"type": "api", "name": "weather"}]
    more = {"details": [{"thought": False}], "error": "e"}
    found = {**SEARCHED, "action": {"type": "search", "query": "q", "sources": sources}, **more}
    known = {**found["action"], "sources": [{"type": "url", "url": "u"}, sources[1]]}
    body, losses = lowered(items=[found, {**SEARCHED, **more}])
    assert body["input"] == [{**SEARCHED, "action": known}, SEARCHED]
    assert losses == []


@pytest.mark.parametrize("sources", ["odd", ["odd"], 1, None])
def test_searches_with_odd_sources_are_sent_back_unchanged(sources: Any) -> None:
    odd = {**SEARCHED, "action": {"type": "search", "query": "q", "sources": sources}}
    body, _ = lowered(items=[odd, {**odd, "details": []}])
    assert body["input"] == [odd, odd]


def test_a_limit_of_searches_is_no_limit_of_other_tools() -> None:
    tools = [{"type": "web_search", "max_uses": 2}, {"type": "mcp", "server_label": "s"}]
    body, losses = lowered(items=[], tools=tools)
    assert body["tools"] == [{"type": "web_search"}, tools[1]]
    assert "max_tool_calls" not in body
    assert losses == [Loss("tools.max_uses", "dropped")]


@pytest.mark.parametrize(("item", "expected"), ITEMS.values(), ids=ITEMS)
def test_items_are_sent_back_with_the_keys_the_upstream_knows(item: Item, expected: Item) -> None:
    before = repr(item)
    assert lowered(items=[item]) == LoweredRequest({**BARE, "input": [expected]}, [])
    assert repr(item) == before


def test_an_incomplete_freeform_output_is_a_loss() -> None:
    output: Item = {"type": "custom_tool_call_output", "call_id": "c", "output": "a"}
    told = lowered(items=[{**output, "status": "incomplete"}])
    assert told == LoweredRequest({**BARE, "input": [output]}, [Loss("input[0].status", "dropped")])


def test_items_alone_are_sent_back_in_the_same_way() -> None:
    told = [item for item, _ in ITEMS.values()]
    lost = Loss("input.unheard_of", "dropped")
    assert lower_items(told, DEFAULT_PROFILE) == ([expected for _, expected in ITEMS.values()], [lost])


THOUGHTS: Item = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "hm"}],
}


def test_readable_reasoning_is_sent_back() -> None:
    told = {**THOUGHTS, "status": "completed", "encrypted_content": None}
    assert lowered(items=[told, USER]) == LoweredRequest({**BARE, "input": [THOUGHTS, USER]}, [])


def test_reasoning_is_sent_back_with_the_keys_that_the_api_requires() -> None:
    bare = {"type": "reasoning", "content": THOUGHTS["content"]}
    expected = {"type": "reasoning", "id": "rs_0", "summary": [], "content": THOUGHTS["content"]}
    assert lowered(items=[bare, USER]) == LoweredRequest({**BARE, "input": [expected, USER]}, [])


def test_a_summary_is_sent_back_as_its_original_text() -> None:
    text = THOUGHTS["content"][0]["text"]
    summarized = {**THOUGHTS, "content": None, "summary": [{"type": "summary_text", "text": text}]}
    expected = {**THOUGHTS, "summary": summarized["summary"]}
    assert lowered(items=[summarized, USER]) == LoweredRequest({**BARE, "input": [expected, USER]}, [])


def test_signatures_of_another_vendor_are_no_loss() -> None:
    mark = {"type": "reasoning", "summary": [], "details": [{"type": "other.mark", "thought": False}]}
    assert lowered(items=[mark, USER]) == LoweredRequest(BARE, [])


@pytest.mark.parametrize(
    ("item", "profile"),
    [
        (THOUGHTS, Profile(replay_reasoning="none")),
        ({**THOUGHTS, "content": None}, DEFAULT_PROFILE),
    ],
    ids=["an upstream that reads only what it sealed itself", "no thoughts"],
)
def test_reasoning_unreadable_for_the_upstream_is_left_out(item: Item, profile: Profile) -> None:
    assert lowered(profile, items=[item, USER]) == LoweredRequest(BARE, [Loss("input[0]", "reasoning dropped")])


CALL: Item = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
SEARCH: Item = {"type": "web_search_call", "id": "ws_1"}


@pytest.mark.parametrize(
    ("replay_ids", "ids"),
    [
        ("reasoning", [None, "rs_1", None, "ws_1"]),
        ("keep", [None, "rs_1", "fc_1", "ws_1"]),
        ("drop", [None] * 3 + ["ws_1"]),
    ],
)
def test_ids_are_sent_back_in_the_form_of_the_upstream(replay_ids: Any, ids: list[str | None]) -> None:
    body, losses = lowered(Profile(replay_ids=replay_ids), items=[USER, THOUGHTS, CALL, SEARCH])
    assert [item.get("id") for item in body["input"]] == ids
    assert losses == []


def test_system_messages_become_instructions_where_the_upstream_accepts_no_others() -> None:
    late: Item = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be kind."}]}
    body, losses = lowered(Profile(system_messages="merge_all"), items=[USER, late])
    assert body == {**BARE, "stream": body["stream"], "instructions": "Be kind."}
    assert losses == [Loss("input", "system messages merged")]
