"""Each switch of thinking is written and recognized."""

from typing import Any, get_args

import pytest

from translation.chat.upstream.lower_thinking import switch_thinking, turns_thinking_off
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile, ThinkingSwitch

SWITCHES = [switch for switch in get_args(ThinkingSwitch) if switch != "none"]


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("switch", SWITCHES)
def test_what_a_switch_writes_is_recognized(switch: Any, thinking: bool) -> None:
    body: Json = {"model": "m"}
    losses: list[Loss] = []
    switch_thinking(body, thinking, None, Profile(thinking_switch=switch), losses)
    assert turns_thinking_off(body) is not thinking
    assert len(body) == 2
    assert losses == []


@pytest.mark.parametrize("effort_field", ["reasoning_effort", "reasoning", "none"])
@pytest.mark.parametrize("switch", SWITCHES)
def test_no_effort_uses_each_switch(switch: Any, effort_field: Any) -> None:
    body: Json = {}
    losses: list[Loss] = []
    switch_thinking(body, None, "none", Profile(thinking_switch=switch, effort_field=effort_field), losses)
    assert turns_thinking_off(body)
    assert losses == []


BODIES: dict[str, tuple[Json, bool]] = {
    "nothing": ({"model": "m"}, False),
    "the template's switch": ({"chat_template_kwargs": {"enable_thinking": False}}, True),
    "DeepSeek's template": ({"chat_template_kwargs": {"thinking": False}}, True),
    "one of two switches of the template": (
        {"chat_template_kwargs": {"enable_thinking": True, "thinking": False}},
        True,
    ),
    "an effort of the template": ({"chat_template_kwargs": {"reasoning_effort": "none"}}, True),
    "other arguments of the template": ({"chat_template_kwargs": {"a": False, "enable_thinking": "no"}}, False),
    "no arguments": ({"chat_template_kwargs": None}, False),
    "OpenRouter's switch": ({"reasoning": {"enabled": False}}, True),
    "OpenRouter's switch that is on": ({"reasoning": {"enabled": True, "effort": "none"}}, False),
    "OpenRouter's effort": ({"reasoning": {"effort": "none"}}, True),
    "an object about something else": ({"reasoning": {"exclude": False}}, False),
    "an object of another type": ({"reasoning": "none"}, False),
    "a type": ({"thinking": {"type": "disabled"}}, True),
    "a type that is on": ({"thinking": {"type": "adaptive"}}, False),
    "a type that is neither": ({"thinking": {"type": "auto"}}, False),
    "a type of another type": ({"thinking": {"type": ["disabled"]}}, False),
    "no effort": ({"reasoning_effort": "none"}, True),
    "an effort": ({"reasoning_effort": "low"}, False),
    "no effort, and a switch that is on": (
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
        False,
    ),
    "an effort, and a switch that is off": ({"reasoning_effort": "high", "thinking": {"type": "disabled"}}, True),
}


@pytest.mark.parametrize(("body", "is_off"), BODIES.values(), ids=BODIES)
def test_every_spelling_that_turns_thinking_off_is_recognized(body: Json, is_off: bool) -> None:
    assert turns_thinking_off(body) is is_off


@pytest.mark.parametrize("value", ["x", ["a"], 1, "", []], ids=repr)
@pytest.mark.parametrize("thinking", [True, False, None])
def test_arguments_of_the_template_that_are_no_object_are_refused(thinking: bool | None, value: Any) -> None:
    profile = Profile(thinking_switch="chat_template_kwargs")
    with pytest.raises(InvalidRequest) as refused:
        switch_thinking({"chat_template_kwargs": value}, thinking, "none", profile, [])
    assert (refused.value.param, refused.value.code) == ("chat_template_kwargs", "invalid_type")
    with pytest.raises(InvalidRequest):
        turns_thinking_off({"chat_template_kwargs": value})
