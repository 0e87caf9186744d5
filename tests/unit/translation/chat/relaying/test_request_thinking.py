"""A relayed chat request has the parameters about thinking that its upstream reads.

tests/unit/gateway/planning/test_plan_relayed_thinking.py compares relays with translations for each kind of upstream.
"""

from dataclasses import replace

import pytest

from translation.chat.relaying.request import relay_body
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile

VLLM = Profile(thinking_switch="chat_template_kwargs")
OPENROUTER = Profile(effort_field="reasoning", thinking_switch="reasoning_enabled")
BY_TYPE = Profile(thinking_switch="thinking_type")
SILENT = Profile(effort_field="none")
SILENT_BY_TYPE = Profile(effort_field="none", thinking_switch="thinking_type")
SILENT_BY_TEMPLATE = Profile(effort_field="none", thinking_switch="chat_template_kwargs")

SENT: dict[str, tuple[Json, Profile, Json, list[str]]] = {
    "an effort in an object": ({"reasoning": {"effort": "high"}}, VLLM, {"reasoning_effort": "high"}, []),
    "no effort in an object": (
        {"reasoning": {"effort": "none"}},
        VLLM,
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False}},
        [],
    ),
    "a switch in an object": (
        {"reasoning": {"enabled": False}, "chat_template_kwargs": {"a": 1}},
        VLLM,
        {"chat_template_kwargs": {"a": 1, "enable_thinking": False}},
        [],
    ),
    "a budget without a field": ({"reasoning": {"max_tokens": 500}}, VLLM, {}, ["reasoning.max_tokens"]),
    "a key of OpenRouter's without a field": ({"reasoning": {"exclude": True}}, VLLM, {}, ["reasoning.exclude"]),
    "a switch without a field": ({"thinking": True}, DEFAULT_PROFILE, {}, ["thinking"]),
    "a switch in an object, without a field": (
        {"reasoning": {"enabled": False}},
        DEFAULT_PROFILE,
        {},
        ["reasoning.enabled"],
    ),
    "an effort without a field": ({"reasoning_effort": "low"}, SILENT, {}, ["reasoning_effort"]),
    "an effort in an object, without a field": ({"reasoning": {"effort": "low"}}, SILENT, {}, ["reasoning.effort"]),
    "OpenRouter's own object": (
        {"reasoning": {"effort": "low", "exclude": True, "summary": "concise", "max_tokens": None}},
        OPENROUTER,
        {"reasoning": {"effort": "low", "exclude": True, "summary": "concise"}},
        [],
    ),
    "an effort for OpenRouter": (
        {"reasoning_effort": "low", "reasoning": {"exclude": True}, "thinking": True},
        OPENROUTER,
        {"reasoning": {"effort": "low", "exclude": True, "enabled": True}},
        [],
    ),
    "a switch for OpenRouter": ({"thinking": False}, OPENROUTER, {"reasoning": {"enabled": False}}, []),
    "an object for OpenRouter": (
        {"thinking": {"type": "disabled", "keep": "all"}},
        OPENROUTER,
        {"reasoning": {"enabled": False}},
        ["thinking.keep"],
    ),
    "a switch by a type": ({"thinking": True}, BY_TYPE, {"thinking": {"type": "enabled"}}, []),
    "no effort, by a type": (
        {"reasoning_effort": "none"},
        BY_TYPE,
        {"reasoning_effort": "none", "thinking": {"type": "disabled"}},
        [],
    ),
    "an object as it came": (
        {"thinking": {"type": "enabled", "keep": "all"}},
        BY_TYPE,
        {"thinking": {"type": "enabled", "keep": "all"}},
        [],
    ),
    "an object as it came, beside another switch": (
        {"thinking": {"type": "auto"}, "reasoning": {"enabled": False}},
        BY_TYPE,
        {"thinking": {"type": "auto"}},
        ["reasoning.enabled"],
    ),
    "an object without a switch": ({"thinking": {"type": "disabled"}}, DEFAULT_PROFILE, {}, ["thinking"]),
    "an object of another type, without a switch": (
        {"thinking": {"type": "auto", "keep": "all"}},
        DEFAULT_PROFILE,
        {},
        ["thinking.type", "thinking.keep"],
    ),
    "no effort, where the switch alone says it": (
        {"reasoning_effort": "none"},
        SILENT_BY_TYPE,
        {"thinking": {"type": "disabled"}},
        [],
    ),
    "no effort beside an object as it came": (
        {"reasoning_effort": "none", "thinking": {"type": "auto"}},
        SILENT_BY_TYPE,
        {"thinking": {"type": "auto"}},
        ["reasoning_effort"],
    ),
    "no effort beside an object that says so too": (
        {"reasoning_effort": "none", "thinking": {"type": "disabled"}},
        SILENT_BY_TYPE,
        {"thinking": {"type": "disabled"}},
        [],
    ),
    "no effort beside a switch that is on": (
        {"reasoning": {"effort": "none", "enabled": True}},
        SILENT_BY_TYPE,
        {"thinking": {"type": "enabled"}},
        ["reasoning.effort"],
    ),
    "no effort beside arguments of the template that say otherwise": (
        {"reasoning_effort": "none", "chat_template_kwargs": {"thinking": True}},
        SILENT_BY_TEMPLATE,
        {"chat_template_kwargs": {"thinking": True}},
        ["reasoning_effort"],
    ),
    "an effort that is sent, beside a budget that is not": (
        {"reasoning_effort": "high", "thinking": {"type": "enabled", "budget_tokens": 2000}},
        VLLM,
        {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": True}},
        ["thinking.budget_tokens"],
    ),
    "an effort in an object, beside a budget in another": (
        {"reasoning": {"effort": "high"}, "thinking": {"type": "enabled", "budget_tokens": 2000}},
        VLLM,
        {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": True}},
        ["thinking.budget_tokens"],
    ),
    "two efforts": (
        {"reasoning": {"effort": "high"}, "reasoning_effort": "low"},
        VLLM,
        {"reasoning_effort": "low"},
        ["reasoning.effort"],
    ),
}


@pytest.mark.parametrize(("params", "profile", "sent", "lost"), SENT.values(), ids=SENT)
def test_the_upstream_gets_its_own_parameters(params: Json, profile: Profile, sent: Json, lost: list[str]) -> None:
    body = {"model": "m", "messages": [], **params}
    relayed = relay_body(body, profile, model="theirs")
    assert relayed.body == {"model": "theirs", "messages": [], **sent}
    assert relayed.losses == [Loss(param, "dropped") for param in lost]
    assert body == {"model": "m", "messages": [], **params}, "the client's body is not changed"


REFUSED: dict[str, tuple[Json, str, Profile, str]] = {
    "an effort": ({"reasoning_effort": "high"}, "reasoning_effort", DEFAULT_PROFILE, "reasoning_effort"),
    "an effort in an object": (
        {"reasoning": {"effort": "high"}},
        "reasoning_effort",
        DEFAULT_PROFILE,
        "reasoning.effort",
    ),
    "an effort, where an object has it": ({"reasoning_effort": "high"}, "reasoning", OPENROUTER, "reasoning_effort"),
    "a switch": ({"reasoning": {"enabled": False}}, "thinking", BY_TYPE, "reasoning.enabled"),
    "a switch of the template": ({"thinking": False}, "chat_template_kwargs", VLLM, "thinking"),
    "a switch that an effort turns off": ({"reasoning_effort": "none"}, "thinking", BY_TYPE, "reasoning_effort"),
    "a limit": ({"max_completion_tokens": 9}, "max_tokens", DEFAULT_PROFILE, "max_completion_tokens"),
}


@pytest.mark.parametrize(("params", "refused", "profile", "lost"), REFUSED.values(), ids=REFUSED)
def test_a_refused_parameter_is_a_loss_of_what_the_client_sent(
    params: Json, refused: str, profile: Profile, lost: str
) -> None:
    profile = replace(profile, refused_params=frozenset({refused}))
    relayed = relay_body({"model": "m", "messages": [], **params}, profile, model="theirs")
    assert refused not in relayed.body
    assert relayed.losses == [Loss(lost, "dropped")]


@pytest.mark.parametrize("params", [{"thinking": False}, {"reasoning_effort": "none"}], ids=str)
def test_arguments_of_the_template_that_are_no_object_are_refused(params: Json) -> None:
    with pytest.raises(InvalidRequest, match="expected an object") as refused:
        relay_body({"model": "m", "messages": [], "chat_template_kwargs": "x", **params}, VLLM, model="theirs")
    assert refused.value.param == "chat_template_kwargs"
