"""The generation request of a turn."""

from dataclasses import replace
from typing import Any

import pytest

from providers.engines.base import OutputConstraint
from providers.engines.generation_request import EngineRequest, build_engine_request
from providers.engines.output_constraints import render_structural_tag
from providers.engines.thinking_budget import fit_budget, resolve_thinking_budget
from tests.unit.providers.engines.engine_exchanges import WEATHER
from tests.unit.support.fake_engine import message
from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.reasoning import may_think
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

TWO = Profile(two_pass="on", tool_parser="hermes", max_thinking_tokens=160, thinking_switch="chat_template_kwargs")
ONE = replace(TWO, two_pass="off")
EXTRA = frozenset({"structured_outputs", "guided_json", "grammar", "top_k", "chat_template_kwargs", "prompt_lookup"})
HONOURED = frozenset({"temperature", "seed", "top_k", "thinking_token_budget"})
FORM = {"type": "json_schema", "name": "x", "schema": {"type": "object"}}


def turn(**fields: Any) -> Turn:
    return Turn(model="m", items=[message("Hi")], **fields)


def build_request(profile: Profile = TWO, **fields: Any) -> EngineRequest:
    return build_engine_request(turn(**fields), replace(profile, extra_params=EXTRA), HONOURED)


def lost(profile: Profile = TWO, **fields: Any) -> set[str]:
    return {loss.param for loss in build_request(profile, **fields).losses}


BUDGETS: dict[str, tuple[dict[str, Any] | None, int]] = {
    "the model's, where the request says nothing": (None, 160),
    "the request's, before its effort": ({"max_tokens": 7, "effort": "low"}, 7),
    "the request's, above the model's": ({"max_tokens": 999}, 999),
    "the effort's, where the model lists it": ({"effort": "medium"}, 50),
    "a sixteenth for minimal": ({"effort": "minimal"}, 10),
    "a quarter for low": ({"effort": "low"}, 40),
    "all for high": ({"effort": "high"}, 160),
    "all for more": ({"effort": "xhigh"}, 160),
}


@pytest.mark.parametrize(("reasoning", "budget"), BUDGETS.values(), ids=BUDGETS)
def test_the_budget_is(reasoning: dict[str, Any] | None, budget: int) -> None:
    profile = replace(TWO, effort_budgets={"medium": 50})
    assert resolve_thinking_budget(turn(reasoning=reasoning), profile) == budget


def test_a_model_that_may_not_think_thinks_at_no_effort() -> None:
    assert resolve_thinking_budget(turn(reasoning={"effort": "low"}), replace(TWO, max_thinking_tokens=0)) == 0
    assert resolve_thinking_budget(turn(reasoning={"effort": "minimal"}), replace(TWO, max_thinking_tokens=3)) == 1


@pytest.mark.parametrize(
    ("room", "answer", "budget"),
    [(None, None, 100), (1000, None, 100), (120, None, 90), (120, 5, 100), (104, 5, 99), (4, None, 3), (2, None, 1)],
)
def test_thinking_leaves_the_answer_its_share(room: int | None, answer: int | None, budget: int) -> None:
    assert fit_budget(100, room=room, max_answer_tokens=answer) == budget


@pytest.mark.parametrize("room", [0, 1])
def test_without_room_for_both_thinking_is_disabled(room: int) -> None:
    assert fit_budget(100, room=room, max_answer_tokens=None) == 0


def test_long_answers_do_not_cost_all_thinking() -> None:
    assert fit_budget(100_000, room=10_000, max_answer_tokens=None) == 10_000 - 256


OFF = [
    {"thinking": False},
    {"reasoning": {"effort": "none"}},
    {"extra": {"chat_template_kwargs": {"enable_thinking": False}}},
]


@pytest.mark.parametrize("fields", OFF)
def test_a_turn_without_thinking_is_one_pass(fields: dict[str, Any]) -> None:
    assert not may_think(turn(**fields))
    found = build_request(**fields)
    assert found.thinking_budget is None
    assert found.chat["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize("fields", [{}, {"thinking": True}, {"extra": {"chat_template_kwargs": "odd"}}])
def test_any_other_turn_thinks(fields: dict[str, Any]) -> None:
    assert may_think(turn(**fields))


def test_templates_enable_thinking_for_a_thinking_pass() -> None:
    assert build_request().chat["chat_template_kwargs"] == {"enable_thinking": True}
    own = {"chat_template_kwargs": {"style": "x"}}
    assert build_request(extra=own).chat["chat_template_kwargs"] == {"style": "x", "enable_thinking": True}


def test_in_one_pass_the_template_gets_the_effort() -> None:
    assert build_request(ONE, reasoning={"effort": "low"}).chat["chat_template_kwargs"] == {"reasoning_effort": "low"}
    assert build_request(ONE).chat["chat_template_kwargs"] == {}
    assert build_request(ONE, thinking=True).chat["chat_template_kwargs"] == {"enable_thinking": True}


def test_honoured_parameters_are_no_losses() -> None:
    honoured: dict[str, Any] = {
        "reasoning": {"effort": "low", "max_tokens": 5, "summary": "auto"},
        "thinking": True,
        "text_format": FORM,
        "max_output_tokens": 9,
        "sampling": {"temperature": 0, "seed": 1, "stop": ["x"], "logprobs": True, "top_logprobs": 1, "store": False},
        "extra": {"top_k": 3, "chat_template_kwargs": {}},
    }
    assert lost(**honoured) == set()


def test_parameters_that_are_not_honoured_are_losses() -> None:
    assert lost(reasoning={"summary": "concise"}, verbosity="low") == {"reasoning.summary", "text.verbosity"}
    assert lost(text_format={**FORM, "description": "d"}) == {"text.format.description"}
    assert lost(sampling={"user": "u", "store": True, "metadata": {"a": "b"}}) == {"user", "store", "metadata"}
    assert lost(sampling={"top_p": 0.5, "service_tier": "flex"}) == {"top_p", "service_tier"}
    assert lost(sampling={"service_tier": "auto"}) == set()
    assert lost(extra={"top_a": 1, "prompt_lookup": 2, "thinking_token_budget": 3}) == {
        "top_a",
        "prompt_lookup",
        "thinking_token_budget",
    }
    assert lost(extra={"top_a": None}) == set()
    assert lost(ONE, reasoning={"max_tokens": 5}) == {"reasoning.max_tokens"}
    without_switch = replace(ONE, thinking_switch="none")
    assert lost(without_switch, thinking=False) == {"thinking"}
    assert lost(without_switch, thinking=True) == {"thinking"}
    assert lost(without_switch, thinking=True, reasoning={"effort": "high"}) == set()
    assert lost(without_switch, thinking=False, reasoning={"effort": "high"}) == {"thinking"}


def test_several_choices_are_refused() -> None:
    with pytest.raises(Unrepresentable) as refused:
        build_request(sampling={"n": 2})
    assert refused.value.param == "n"


def test_a_budget_that_the_engine_cannot_keep_in_one_run_is_refused() -> None:
    profile = replace(TWO, two_pass="engine")
    assert build_request(profile, reasoning={"max_tokens": 5}).sampling == {"thinking_token_budget": 5}
    with pytest.raises(Unrepresentable) as refused:
        build_engine_request(turn(), profile, frozenset())
    assert refused.value.param == "reasoning"


def test_tools_without_a_parser_are_refused_unless_they_are_not_to_be_called() -> None:
    profile = replace(TWO, tool_parser="openai")
    with pytest.raises(Unrepresentable) as refused:
        build_request(profile, tools=[WEATHER])
    assert refused.value.param == "tools"
    assert "tools" not in build_request(profile, tools=[WEATHER], tool_choice="none").chat


def test_a_parser_for_text_only_upstreams_is_used_too() -> None:
    profile = replace(TWO, tool_parser="openai", text_tool_calls="hermes")
    assert build_request(profile, tools=[WEATHER]).parser is not None


def test_parsers_of_the_engine_are_used() -> None:
    profile = replace(TWO, tool_parser="vllm:other")
    ours = build_request(tools=[WEATHER]).parser
    assert ours is not None
    found = build_engine_request(turn(tools=[WEATHER]), profile, HONOURED, {"vllm:other": ours})
    assert found.parser is ours
    assert found.call_format == "hermes"
    assert found.block_stop is None


def test_a_single_call_is_refused_if_nothing_can_end_it() -> None:
    assert lost(tools=[WEATHER], parallel_tool_calls=False) == set()
    assert lost(replace(TWO, tool_parser="pythonic"), tools=[WEATHER], parallel_tool_calls=False) == {
        "parallel_tool_calls"
    }


def test_calls_in_a_format_that_cannot_be_forced_are_refused() -> None:
    with pytest.raises(Unrepresentable) as refused:
        build_request(replace(TWO, tool_parser="pythonic"), tools=[WEATHER], tool_choice="required")
    assert refused.value.param == "tool_choice"


def test_a_form_constrains_text_that_is_no_call() -> None:
    found = build_request(tools=[WEATHER], text_format=FORM)
    assert (found.constraint, found.call_opening) == (OutputConstraint(json_schema={"type": "object"}), "<tool_call>")
    assert found.losses == ()


def test_a_form_beside_calls_that_look_like_it_is_reported_and_left_out() -> None:
    found = build_request(replace(TWO, tool_parser="json"), tools=[WEATHER], text_format=FORM)
    assert (found.constraint, found.call_opening) == (None, None)
    assert found.losses == (Loss("text.format", "not enforced beside tools"),)


GUIDES: dict[str, tuple[dict[str, Any], OutputConstraint | None]] = {
    "nothing": ({}, None),
    "plain text": ({"text_format": {"type": "text"}}, None),
    "an object": ({"text_format": {"type": "json_object"}}, OutputConstraint(json_object=True)),
    "a schema": ({"text_format": FORM}, OutputConstraint(json_schema={"type": "object"})),
    "a schema as a field": ({"extra": {"guided_json": {"a": 1}}}, OutputConstraint(json_schema={"a": 1})),
    "a grammar": ({"extra": {"grammar": "root ::= x"}}, OutputConstraint(grammar="root ::= x")),
    "a regex": ({"extra": {"structured_outputs": {"regex": "a+", "json": None}}}, OutputConstraint(regex="a+")),
    "a choice": ({"extra": {"structured_outputs": {"choice": ["a", "b"]}}}, OutputConstraint(choice=("a", "b"))),
    "any JSON": ({"extra": {"structured_outputs": {"json_object": True}}}, OutputConstraint(json_object=True)),
    "no JSON": ({"extra": {"structured_outputs": {"json_object": False}}}, None),
    "a field the model does not take": ({"extra": {"guided_regex": "a"}}, None),
}


@pytest.mark.parametrize(("fields", "guide"), GUIDES.values(), ids=GUIDES)
def test_an_answer_is_constrained_to(fields: dict[str, Any], guide: OutputConstraint | None) -> None:
    assert build_request(**fields).constraint == guide


BAD_GUIDES: dict[str, tuple[dict[str, Any], str]] = {
    "two of them": ({"text_format": FORM, "extra": {"grammar": "x"}}, "grammar"),
    "two kinds of one": ({"extra": {"structured_outputs": {"regex": "a", "choice": ["b"]}}}, "structured_outputs"),
    "an unknown kind": ({"extra": {"structured_outputs": {"style": "a"}}}, "structured_outputs.style"),
    "no object": ({"extra": {"structured_outputs": "a"}}, "structured_outputs"),
    "a schema that is none": ({"extra": {"guided_json": "a"}}, "guided_json"),
    "a grammar that is none": ({"extra": {"grammar": ""}}, "grammar"),
    "a choice of one text": ({"extra": {"structured_outputs": {"choice": "ab"}}}, "structured_outputs.choice"),
    "another format": ({"text_format": {"type": "xml"}}, "text.format.type"),
}


@pytest.mark.parametrize(("fields", "param"), BAD_GUIDES.values(), ids=BAD_GUIDES)
def test_invalid_constraints_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        build_request(**fields)
    assert refused.value.param == param


def test_a_schema_and_what_follows_it_are_one_tag() -> None:
    assert render_structural_tag(OutputConstraint(json_schema={"a": 1})) is None
    assert render_structural_tag(OutputConstraint(regex="a", suffix="x")) is None
    tag = render_structural_tag(OutputConstraint(json_schema={"a": 1}, suffix="x"))
    assert tag is not None
    assert '"const_string"' in tag


FREEFORM = {"type": "function", "name": "note", "parameters": {"type": "object"}}
INPUT_GRAMMARS: dict[str, tuple[dict[str, Any], OutputConstraint]] = {
    "a regex": ({"syntax": "regex", "definition": "a+"}, OutputConstraint(regex="a+")),
    "a Lark grammar": ({"syntax": "lark", "definition": "start: A"}, OutputConstraint(lark="start: A")),
}


@pytest.mark.parametrize(("grammar", "constraint"), INPUT_GRAMMARS.values(), ids=INPUT_GRAMMARS)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "note"}], ids=["required", "named"])
def test_only_the_input_of_a_forced_tool_with_a_grammar_is_generated(
    grammar: dict[str, Any], constraint: OutputConstraint, choice: Any
) -> None:
    tools = [FREEFORM] if choice == "required" else [WEATHER, FREEFORM]
    request = build_request(
        tools=tools, tool_choice=choice, input_grammars={"note": grammar}, parallel_tool_calls=False
    )
    assert request.constraint == constraint
    assert request.generates_argument
    assert request.forced_call is not None
    assert request.forced_call.prefix.endswith('{"name": "note", "arguments": {"input": "')
    assert request.block_stop is None, "the input may contain the closing tag"


def test_another_forced_call_is_json() -> None:
    request = build_request(tools=[WEATHER], tool_choice="required")
    assert not request.generates_argument
