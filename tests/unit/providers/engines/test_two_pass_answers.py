"""The answers of engines: calls, constraints, stop strings, and turns in one pass."""

import json
from typing import Any

import pytest

from providers.engines.base import OutputConstraint
from tests.unit.providers.engines.engine_exchanges import ANSWER, CALL, PROMPT, THOUGHT, WEATHER, WORDS, ask, limited
from tests.unit.support.fake_engine import FakeEngine
from translation.representation.events import Noted
from translation.representation.profile import Profile


async def test_calls_are_read_out_of_the_answer() -> None:
    engine = FakeEngine([f"{THOUGHT}</think>", f"I look.\n{CALL}\n{CALL}"], words=WORDS)
    result = await ask(engine, tools=[WEATHER])
    assert [kind for kind, _ in result.items] == ["reasoning", "message", "function_call", "function_call"]
    assert result.end.reason == "tool_calls"
    assert engine.rendered[0]["tools"][0]["function"]["name"] == "get_weather"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("single", [{"parallel_tool_calls": False}, {"profile": {"single_tool_block": True}}])
async def test_one_block_of_calls_ends_the_answer(single: Any, stream: bool) -> None:
    profile = Profile(two_pass="on", tool_parser="hermes", **single.get("profile", {}))
    turn = {name: value for name, value in single.items() if name != "profile"}
    engine = FakeEngine([f"{THOUGHT}</think>", f"{CALL}\n{CALL}"], words=WORDS)
    result = await ask(engine, profile, tools=[WEATHER], stream=stream, **turn)
    assert [kind for kind, _ in result.items] == ["reasoning", "function_call"]
    assert engine.runs[1].asked.stop == ("</tool_call>",)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_cannot_be_parsed_is_left_out_with_a_warning(stream: bool) -> None:
    profile = Profile(two_pass="on", tool_parser="hermes", single_tool_block=True)
    answer = '<tool_call>\n{"name": "get_weather", "arguments": {"city": Paris}}\n</tool_call>'
    engine = FakeEngine([f"{THOUGHT}</think>", answer], words=WORDS)
    result = await ask(engine, profile, tools=[WEATHER], stream=stream)
    assert result.items == [("reasoning", "I think.")]
    why = {"name": "get_weather", "why": "a call is not valid JSON"}
    assert Noted(facts={"tool_warnings": [why]}) in result.events
    assert result.usage.reasoning == len(THOUGHT) + 1


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
async def test_a_forced_call_is_begun_for_the_model_and_held_to_its_schema(choice: Any) -> None:
    body = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    engine = FakeEngine([f"{THOUGHT}</think>", f"{body}\n</tool_call>{'no' * 50}"], words=WORDS)
    result = await ask(engine, tools=[WEATHER], tool_choice=choice)
    assert result.items == [("reasoning", "I think."), ("function_call", '{"city": "Paris"}')]
    first, second = engine.runs
    assert first.asked.constraint is None
    assert second.prompt.endswith("</think>\n\n<tool_call>\n")
    guide = second.asked.constraint
    assert guide is not None
    assert guide.json_schema is not None
    assert guide.json_schema["properties"]["name"] == {"const": "get_weather"}
    assert guide.suffix == "\n</tool_call>"
    assert result.end.reason == "tool_calls"
    assert result.usage.output == len(THOUGHT) + 1 + len(body)


async def test_a_truncated_forced_call_is_incomplete() -> None:
    engine = FakeEngine([f"{THOUGHT}</think>", '{"name": "get_weather", "arguments": {"city": "Par'], words=WORDS)
    result = await ask(engine, tools=[WEATHER], tool_choice="required", max_output_tokens=60)
    assert result.end.reason == "length"


async def test_a_form_holds_the_answer_and_not_the_thought() -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    engine = FakeEngine([f"{THOUGHT}</think>", '{"a": 1}' + "\n" * 500], words=WORDS)
    result = await ask(engine, text_format=form)
    assert result.text == '{"a": 1}'
    assert result.end.reason == "stop"
    assert engine.runs[0].asked.constraint is None
    assert engine.runs[1].asked.constraint is not None


FORM = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}


@pytest.mark.parametrize("size", [1, 4, 400])
async def test_a_model_that_begins_with_a_call_is_held_to_no_form(size: int) -> None:
    engine = FakeEngine([f"{THOUGHT}</think>", f"\n{CALL}", CALL.removeprefix("<tool_call>")], words=WORDS, size=size)
    result = await ask(engine, tools=[WEATHER], text_format=FORM)
    assert [kind for kind, _ in result.items] == ["reasoning", "function_call"]
    assert engine.runs[1].closed
    assert engine.runs[2].asked.constraint is None
    assert engine.runs[2].prompt.endswith("</think>\n\n<tool_call>")


@pytest.mark.parametrize("text", ["It is", "<tool", ""])
async def test_a_model_with_tools_that_begins_with_anything_else_is_held_to_its_form(text: str) -> None:
    engine = FakeEngine([f"{THOUGHT}</think>", text, '{"a": 1}'], words=WORDS)
    result = await ask(engine, tools=[WEATHER], text_format=FORM)
    assert result.text == '{"a": 1}'
    assert engine.runs[2].asked.constraint is not None
    assert engine.runs[2].prompt == engine.runs[1].prompt


async def test_a_model_without_room_for_tokens_is_not_prompted() -> None:
    engine = FakeEngine([f"{THOUGHT}</think>"], words=WORDS, heeds_limit=False)
    result = await ask(engine, tools=[WEATHER], text_format=FORM, max_output_tokens=4)
    assert result.end.reason == "length"
    assert len(engine.runs) == 1


@pytest.mark.parametrize("heeds", [True, False])
async def test_an_answer_that_is_held_to_a_form_begins_at_its_beginning(heeds: bool) -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    text = f"{THOUGHT}</think>\n\nYes, here it is"
    engine = FakeEngine([text, '{"a": 1}'], words=("</think>\n\nYes",), heeds_stops=heeds)
    result = await ask(engine, text_format=form)
    assert result.text == '{"a": 1}'
    assert engine.runs[1].prompt == f"{PROMPT}{THOUGHT}</think>\n\n"


async def test_stop_texts_and_probabilities_are_for_the_answer() -> None:
    engine = FakeEngine([f"{THOUGHT}Yes.</think>", "Well. Yes. No."], words=WORDS)
    sampling = {"stop": ["Yes"], "logprobs": True, "top_logprobs": 2, "seed": 7, "min_tokens": 1}
    result = await ask(engine, sampling=sampling)
    assert result.text == "Well. "
    assert result.end.reason == "stop"
    first, second = engine.runs
    assert (first.asked.top_logprobs, second.asked.top_logprobs) == (None, 2)
    assert second.asked.stop == ("Yes",)
    assert first.asked.sampling == {"seed": 7}
    assert second.asked.sampling == {"seed": 7, "min_tokens": 1}


async def test_a_call_that_cannot_be_used_is_left_out() -> None:
    engine = FakeEngine([f"{THOUGHT}</think>", CALL.replace('"city": "Paris"', '"town": 7') + "a" * 100], words=WORDS)
    result = await ask(engine, tools=[WEATHER])
    assert "function_call" not in dict(result.items)
    assert result.end.reason == "stop"


async def test_one_run_reads_think_tags_out_of_the_text() -> None:
    profile = Profile(parsing_format="think_tags", tool_parser="hermes", max_response_tokens=90)
    engine = FakeEngine([f"<think>{THOUGHT}</think>\n\n{ANSWER}"], words=WORDS, cached=3)
    result = await ask(engine, profile)
    assert result.items == [("reasoning", "I think."), ("message", ANSWER)]
    assert result.usage.reasoning == len(THOUGHT) + 2
    assert (result.usage.input, result.usage.cache_read) == (len("user: Hi\n"), 3)
    assert engine.runs[0].asked.max_tokens == 90


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("words", [WORDS, ()], ids=["tags are tokens", "tags are letters"])
async def test_one_run_counts_the_thought_it_began_in(words: Any, size: int) -> None:
    engine = FakeEngine([f"{THOUGHT}</think>\n\n{ANSWER}"], words=words, size=size, opens="<think>\n")
    result = await ask(engine, Profile(parsing_format="think_tags"))
    assert result.items == [("reasoning", "I think."), ("message", ANSWER)]
    exact = len(await engine.encode(f"{THOUGHT}</think>"))
    assert result.usage.reasoning is not None
    assert exact <= result.usage.reasoning < exact + size


@pytest.mark.parametrize(("opens", "runs"), [("<think>\n", 2), ("", 1)])
async def test_a_form_does_not_hold_the_thought_that_the_template_opened(opens: str, runs: int) -> None:
    form = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}
    engine = FakeEngine([f"{THOUGHT}</think>", '{"a": 1}'][-runs:], words=WORDS, opens=opens, context_window=200)
    result = await ask(engine, Profile(parsing_format="think_tags"), text_format=form)
    assert result.text == '{"a": 1}'
    assert result.reasoning == ("I think." if opens else "")
    assert [run.asked.constraint is None for run in engine.runs] == [True, False][-runs:]


async def test_one_run_leaves_text_alone_where_nothing_is_to_be_read() -> None:
    engine = FakeEngine(["<think>a</think>b"])
    result = await ask(engine, Profile())
    assert result.items == [("message", "<think>a</think>b")]
    assert result.usage.reasoning is None


async def test_one_run_may_keep_the_budget_itself() -> None:
    profile = Profile(two_pass="engine", parsing_format="think_tags", max_response_tokens=50)
    budget = "thinking_token_budget"
    engine = FakeEngine([ANSWER, ANSWER], supported_parameters=frozenset({budget}))
    await ask(engine, profile, **limited(7))
    await ask(engine, profile, thinking=False)
    kept, off = engine.runs
    assert (kept.asked.sampling, kept.asked.max_tokens) == ({budget: 7}, 57)
    assert (off.asked.sampling, off.asked.max_tokens) == ({}, 50)


@pytest.mark.parametrize("is_told_to", [True, False])
async def test_tools_that_the_template_does_not_render_are_described_in_text(is_told_to: bool) -> None:
    engine = FakeEngine([f"{THOUGHT}</think>", CALL], words=WORDS, tools=is_told_to)
    profile = Profile(two_pass="on", tool_parser="hermes", text_tool_calls="hermes" if is_told_to else "none")
    result = await ask(engine, profile, tools=[WEATHER])
    assert "tools" not in engine.rendered[0]
    assert "# Tools" in engine.rendered[0]["messages"][0]["content"]
    assert result.items[-1] == ("function_call", '{"city": "Paris"}')


async def test_the_input_of_a_forced_tool_with_a_grammar_is_the_text_of_the_model() -> None:
    """Its characters are not escaped, and a closing tag does not end it."""
    written = 'say "hi"\n\\ </tool_call> é'
    tool = {"type": "function", "name": "note", "parameters": {"type": "object"}}
    grammar = {"note": {"type": "grammar", "syntax": "regex", "definition": "(?s).*"}}
    engine = FakeEngine([THOUGHT + "</think>", written], words=WORDS)
    result = await ask(engine, tools=[tool], tool_choice="required", input_grammars=grammar)
    [call] = [arguments for kind, arguments in result.items if kind == "function_call"]
    assert json.loads(call) == {"input": written}
    assert engine.runs[-1].asked.constraint == OutputConstraint(regex="(?s).*")
