"""A turn as a request of the Messages API."""

from dataclasses import replace

import pytest

from tests.unit.support.items import user
from tests.unit.translation.messages.upstream.item_blocks import SIGNED, text, thought
from tests.unit.translation.messages.upstream.lowered_turns import (
    FUNCTION,
    LOOP,
    NEW,
    OLD,
    PROFILE,
    TOOL,
    lowered,
    with_limit,
)
from translation.errors import InvalidRequest, Unrepresentable
from translation.messages.upstream.lower import lower
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def test_a_turn_becomes_a_request() -> None:
    turn = Turn(model=NEW, items=[user("a")], instructions="b", max_output_tokens=99)
    assert lower(turn, PROFILE) == (
        {
            "model": NEW,
            "max_tokens": 99,
            "messages": [{"role": "user", "content": [text("a")]}],
            "system": "b",
            "stream": True,
        },
        (),
    )


@pytest.mark.parametrize("items", [[], [user(" ")], [{"type": "message", "role": "system", "content": []}]], ids=str)
def test_a_turn_without_messages_is_refused(items: list[Json]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        lowered(items=items)
    assert refused.value.param == "input"


def enabled(budget: int) -> Json:
    return {"type": "enabled", "budget_tokens": budget}


THINKING: dict[str, tuple[str, Json, Json, list[Loss]]] = {
    "nothing configured": (NEW, {}, with_limit(), []),
    "a summary of nothing": (
        NEW, {"reasoning": {"summary": "auto"}}, with_limit(), [Loss("reasoning.summary", "dropped")]
    ),
    "an effort": (
        NEW,
        {"reasoning": {"effort": "high", "summary": "auto"}},
        with_limit(thinking=ADAPTIVE, output_config={"effort": "high"}),
        [],
    ),
    "hardly any": (
        NEW,
        {"reasoning": {"effort": "minimal"}},
        with_limit(thinking=ADAPTIVE, output_config={"effort": "low"}),
        [Loss("reasoning.effort", "minimal as low")],
    ),
    "thinking on": (NEW, {"thinking": True}, with_limit(thinking=ADAPTIVE), []),
    "thinking off": (
        NEW,
        {"thinking": False, "reasoning": {"effort": "high"}},
        with_limit(thinking={"type": "disabled"}),
        [],
    ),
    "no effort": (OLD, {"reasoning": {"effort": "none"}}, with_limit(thinking={"type": "disabled"}), []),
    "a budget for a model that has none": (
        NEW,
        {"reasoning": {"max_tokens": 2000}},
        with_limit(thinking=ADAPTIVE),
        [Loss("reasoning.max_tokens", "dropped")],
    ),
    "a forced tool": (
        NEW,
        {"reasoning": {"effort": "low"}, "tools": [FUNCTION], "tool_choice": "required"},
        with_limit(output_config={"effort": "low"}, tools=[TOOL], tool_choice={"type": "any"}),
        [Loss("reasoning", "not where a tool is forced")],
    ),
    "a tool loop begun without thoughts": (
        NEW,
        {"thinking": True, "items": LOOP},
        with_limit(thinking=ADAPTIVE),
        [],
    ),
    "an answer's effort": (
        NEW,
        {"reasoning": {"effort": "high"}, "thinks_by_effort": False},
        with_limit(output_config={"effort": "high"}),
        [],
    ),
    "an answer's effort, with thinking": (
        NEW,
        {"reasoning": {"effort": "high"}, "thinks_by_effort": False, "thinking": True},
        with_limit(thinking=ADAPTIVE, output_config={"effort": "high"}),
        [],
    ),
    "an answer's effort, older": (
        OLD,
        {"reasoning": {"effort": "high"}, "thinks_by_effort": False},
        with_limit(),
        [Loss("reasoning.effort", "dropped")],
    ),
    "an effort, older": (OLD, {"reasoning": {"effort": "medium"}}, with_limit(thinking=enabled(8192)), []),
    "hardly any, older": (OLD, {"reasoning": {"effort": "minimal"}}, with_limit(thinking=enabled(1024)), []),
    "all there is, older": (OLD, {"reasoning": {"effort": "max"}}, with_limit(thinking=enabled(16_384)), []),
    "thinking on, older": (OLD, {"thinking": True}, with_limit(thinking=enabled(16_384)), []),
    "a budget, older": (
        OLD, {"reasoning": {"max_tokens": 2000, "effort": "high"}}, with_limit(thinking=enabled(2000)), []
    ),
    "a budget over the usual length": (
        OLD,
        {"reasoning": {"max_tokens": 50_000}},
        with_limit(thinking=enabled(50_000), max_tokens=58_000),
        [],
    ),
    "a budget too small": (
        OLD,
        {"reasoning": {"max_tokens": 10}},
        with_limit(thinking=enabled(1024)),
        [Loss("reasoning", "1024 tokens")],
    ),
    "a budget too large": (
        OLD,
        {"reasoning": {"max_tokens": 4000}, "max_output_tokens": 4000},
        with_limit(thinking=enabled(3000), max_tokens=4000),
        [Loss("reasoning", "3000 tokens")],
    ),
    "no room to think": (
        OLD,
        {"reasoning": {"effort": "low"}, "max_output_tokens": 1200},
        with_limit(max_tokens=1200),
        [Loss("reasoning", "no room for it")],
    ),
    "a forced tool, older": (
        OLD,
        {"thinking": True, "tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
        with_limit(tools=[TOOL], tool_choice={"type": "tool", "name": "f"}),
        [Loss("reasoning", "not where a tool is forced")],
    ),
    "a tool loop begun without thoughts, older": (
        OLD,
        {"thinking": True, "items": LOOP},
        with_limit(),
        [Loss("reasoning", "not in a turn begun without")],
    ),
    "a tool loop begun with thoughts, older": (
        OLD,
        {"thinking": True, "items": [LOOP[0], thought(SIGNED), *LOOP[1:]]},
        with_limit(thinking=enabled(16_384)),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "given", "body", "losses"), THINKING.values(), ids=THINKING)
def test_thinking_is_requested_in_the_form_the_model_knows(
    model: str, given: Json, body: Json, losses: list[Loss]
) -> None:
    assert lowered(model, **given) == (body, losses)


def test_betas_of_the_client_are_a_loss() -> None:
    body, losses = lowered(betas=("context-1m-2025-08-07",))
    assert "anthropic_beta" not in body
    assert losses == [Loss("anthropic_beta", "dropped")]


def test_the_form_of_thinking_can_be_configured() -> None:
    adaptive, budget = (Profile(thinking_form=form) for form in ("adaptive", "budget"))
    assert lowered(OLD, adaptive, thinking=True)[0]["thinking"] == ADAPTIVE
    assert lowered("glm-5", budget, thinking=True)[0]["thinking"] == enabled(2048)


def test_efforts_can_have_budgets_of_their_own_and_answers_a_length() -> None:
    profile = Profile(effort_budgets={"low": 3000}, max_response_tokens=500)
    body, _ = lowered(OLD, profile, reasoning={"effort": "low"})
    assert (body["thinking"], body["max_tokens"]) == (enabled(3000), 3500)
    for quiet in ({}, {"thinking": False}):
        assert lowered(OLD, profile, **quiet)[0]["max_tokens"] == 500


THINKS = {"thinking": ADAPTIVE}
SAMPLING: dict[str, tuple[Json, Json, Json, list[Loss]]] = {
    "a temperature": ({"temperature": 0.5}, {}, {"temperature": 0.5}, []),
    "too much of it": ({"temperature": 1.5}, {}, {"temperature": 1}, [Loss("temperature", "lowered to 1")]),
    "top_p": ({"top_p": 0.5}, {}, {"top_p": 0.5}, []),
    "all tokens": ({"top_p": 1, "temperature": 0}, {}, {"temperature": 0}, []),
    "both": ({"top_p": 0.5, "temperature": 0}, {}, {"temperature": 0}, [Loss("top_p", "dropped")]),
    "thinking has a temperature of its own": (
        {"temperature": 0.5},
        {"thinking": True},
        THINKS,
        [Loss("temperature", "dropped")],
    ),
    "which is 1": ({"temperature": 1, "top_p": 0.97}, {"thinking": True}, {**THINKS, "top_p": 0.97}, []),
    "thinking takes most tokens": (
        {"top_p": 0.9},
        {"thinking": True, "extra": {"top_k": 4}},
        THINKS,
        [Loss("top_p", "dropped"), Loss("top_k", "dropped")],
    ),
    "what the API knows more": (
        {},
        {"extra": {"top_k": 4, "best_of": 2, "container": None}},
        {"top_k": 4},
        [Loss("best_of", "dropped")],
    ),
    "where to stop": ({"stop": ["a"]}, {}, {"stop_sequences": ["a"]}, []),
    "who asks": ({"user": "a"}, {}, {"metadata": {"user_id": "a"}}, []),
    "who asks, safely": ({"safety_identifier": "b"}, {}, {"metadata": {"user_id": "b"}}, []),
    "who asks, by two names": (
        {"user": "a", "safety_identifier": "b"},
        {},
        {"metadata": {"user_id": "b"}},
        [Loss("user", "dropped")],
    ),
    "who asks, without one of both": ({"user": "a", "safety_identifier": ""}, {}, {"metadata": {"user_id": "a"}}, []),
    "who asks, twice": ({"user": "a", "safety_identifier": "a"}, {}, {"metadata": {"user_id": "a"}}, []),
    "a tier": ({"service_tier": "default"}, {}, {"service_tier": "standard_only"}, []),
    "a tier there is not": ({"service_tier": "flex"}, {}, {}, [Loss("service_tier", "dropped")]),
    "how much to say": ({}, {"verbosity": "low"}, {}, [Loss("text.verbosity", "dropped")]),
    "what there is no word for": (
        {"seed": 1, "store": True, "metadata": {"a": "b"}, "presence_penalty": 0, "n": 1},
        {},
        {},
        [Loss("seed", "dropped"), Loss("metadata", "dropped"), Loss("store", "dropped")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sampling", "given", "body", "losses"), SAMPLING.values(), ids=SAMPLING)
def test_parameters_are_sent_or_lost(sampling: Json, given: Json, body: Json, losses: list[Loss]) -> None:
    assert lowered(sampling=sampling, **given) == (with_limit(**body), losses)


@pytest.mark.parametrize(
    ("model", "sent"),
    [("claude-sonnet-4-6", "high"), ("claude-opus-4.6", "high"), ("claude-opus-4-7", "xhigh"), ("glm-5", "xhigh")],
)
def test_an_effort_that_a_model_lacks_is_the_next_below(model: str, sent: str) -> None:
    body, losses = lowered(model, reasoning={"effort": "xhigh"})
    assert body["output_config"] == {"effort": sent}
    assert losses == ([] if sent == "xhigh" else [Loss("reasoning.effort", "xhigh as high")])


UNSAMPLED = {
    "anthropic/claude-opus-4.7": True,
    "claude-opus-4-7": True,
    "anthropic/claude-4.7-opus": True,
    "anthropic.claude-opus-4-8-v1:0": True,
    "claude-opus-5": True,
    "claude-sonnet-5-20270101": True,
    "claude-opus-4-6": False,
    "claude-opus-4-20250514": False,
    "claude-3-7-sonnet-20250219": False,
    "glm-5": False,
}


@pytest.mark.parametrize(("model", "is_unsampled"), UNSAMPLED.items())
def test_models_since_4_7_get_no_sampling_parameters(model: str, is_unsampled: bool) -> None:
    given: Json = {"sampling": {"temperature": 1.5, "top_p": 0.9}, "extra": {"top_k": 4}}
    body, losses = lowered(model, **given)
    if is_unsampled:
        assert body.keys().isdisjoint(("temperature", "top_p", "top_k"))
        assert losses == [Loss(name, "dropped") for name in ("temperature", "top_p", "top_k")]
    else:
        assert body == with_limit(temperature=1, top_k=4)


def test_sampling_as_a_model_does_it_anyway_is_no_loss() -> None:
    assert lowered("claude-opus-4-7", sampling={"temperature": 1, "top_p": 1, "stop": ["a"]}) == (
        with_limit(stop_sequences=["a"]),
        [],
    )


def test_a_model_with_a_budget_gets_sampling_parameters_too() -> None:
    body, losses = lowered("claude-opus-5", replace(PROFILE, thinking_form="budget"), sampling={"temperature": 0})
    assert (body, losses) == (with_limit(temperature=0), [])


REFUSED: dict[str, tuple[Json, str]] = {
    "several answers": ({"sampling": {"n": 2}}, "n"),
    "biases": ({"sampling": {"logit_bias": {"1": 1}}}, "logit_bias"),
    "probabilities": ({"sampling": {"logprobs": True}}, "logprobs"),
    "blanks to stop at": ({"sampling": {"stop": ["a", "\n"]}}, "stop"),
    "any JSON": ({"text_format": {"type": "json_object"}}, "text.format.type"),
    "another format": ({"text_format": {"type": "grammar"}}, "text.format.type"),
    "another kind of tool": ({"tools": [{"type": "file_search"}]}, "tools[0]"),
    "a search that is not there": ({"tools": [FUNCTION], "tool_choice": {"type": "web_search"}}, "tool_choice"),
    "a choice of another kind": (
        {"tools": [FUNCTION], "tool_choice": {"type": "mcp", "server_label": "a"}},
        "tool_choice",
    ),
}


@pytest.mark.parametrize(("given", "param"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_change_the_answer_are_refused_by_name(given: Json, param: str) -> None:
    with pytest.raises(Unrepresentable) as refused:
        lowered(**given)
    assert refused.value.param == param


INVALID: dict[str, tuple[Json, str]] = {
    "no name": ({"tools": [{"type": "function"}]}, "tools[0].name"),
    "a choice without tools": ({"tool_choice": "required"}, "tool_choice"),
    "a choice of what is not there": (
        {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "g"}},
        "tool_choice",
    ),
    "an allowance for what is not there": (
        {"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "g"}]}},
        "tool_choice.tools",
    ),
}


@pytest.mark.parametrize(("given", "param"), INVALID.values(), ids=INVALID)
def test_unsupported_tools_are_refused_by_name(given: Json, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        lowered(**given)
    assert refused.value.param == param
