"""A relayed chat request has the parameters about thinking that its upstream reads.

tests/unit/gateway/planning/test_plan_relayed_thinking.py compares relays with translations for each kind of upstream.
"""

import pytest

from translation.chat.relaying.request import relay_body
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile

VLLM = Profile(thinking_switch="chat_template_kwargs")
OPENROUTER = Profile(effort_field="reasoning", thinking_switch="reasoning_enabled")
BY_TYPE = Profile(thinking_switch="thinking_type")
SILENT = Profile(effort_field="none")

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
        DEFAULT_PROFILE,
        {"thinking": {"type": "auto"}},
        ["reasoning.enabled"],
    ),
}


@pytest.mark.parametrize(("params", "profile", "sent", "lost"), SENT.values(), ids=SENT)
def test_the_upstream_gets_its_own_parameters(params: Json, profile: Profile, sent: Json, lost: list[str]) -> None:
    body = {"model": "m", "messages": [], **params}
    relayed = relay_body(body, profile, model="theirs")
    assert relayed.body == {"model": "theirs", "messages": [], **sent}
    assert relayed.losses == [Loss(param, "dropped") for param in lost]
    assert body == {"model": "m", "messages": [], **params}, "the client's body is not changed"
