"""Each switch of thinking is written and recognized."""

from typing import Any, get_args

import pytest

from translation.chat.upstream.lower_thinking import find_thinking_off, switch_thinking
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile, ThinkingSwitch

ARGUMENTS = ("enable_thinking", "thinking")
VALUES = (True, False, None, "auto")
BOTH = {"enable_thinking": True, "thinking": False}

SWITCHES = [switch for switch in get_args(ThinkingSwitch) if switch != "none"]


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("switch", SWITCHES)
def test_what_a_switch_writes_is_recognized(switch: Any, thinking: bool) -> None:
    body: Json = {"model": "m"}
    losses: list[Loss] = []
    switch_thinking(body, thinking, None, Profile(thinking_switch=switch), losses)
    assert find_thinking_off(body) == (None if thinking else "switch")
    assert len(body) == 2
    assert losses == []


@pytest.mark.parametrize("effort_field", ["reasoning_effort", "reasoning", "none"])
@pytest.mark.parametrize("switch", SWITCHES)
def test_no_effort_uses_each_switch(switch: Any, effort_field: Any) -> None:
    body: Json = {}
    losses: list[Loss] = []
    switch_thinking(body, None, "none", Profile(thinking_switch=switch, effort_field=effort_field), losses)
    assert find_thinking_off(body) == "switch"
    assert losses == []


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("own", [{}, *({name: value} for name in ARGUMENTS for value in VALUES), BOTH], ids=str)
def test_a_switch_leaves_no_argument_of_the_template_that_says_otherwise(own: Json, thinking: bool) -> None:
    body: Json = {"chat_template_kwargs": {"a": 1, **own}}
    switch_thinking(body, thinking, None, Profile(thinking_switch="chat_template_kwargs"), [])
    expected = {"a": 1, **dict.fromkeys(own, thinking), "enable_thinking": thinking}
    assert body == {"chat_template_kwargs": expected}
    assert find_thinking_off(body) == (None if thinking else "switch")


@pytest.mark.parametrize("own", [{name: value} for name in ARGUMENTS for value in (True, False)], ids=str)
@pytest.mark.parametrize("effort", ["none", "high"])
def test_an_effort_leaves_the_arguments_of_the_template(own: Json, effort: str) -> None:
    body: Json = {"chat_template_kwargs": dict(own)}
    switch_thinking(body, None, effort, Profile(thinking_switch="chat_template_kwargs"), [])
    assert body == {"chat_template_kwargs": own}


BODIES: dict[str, tuple[Json, str | None]] = {
    "nothing": ({"model": "m"}, None),
    "the template's switch": ({"chat_template_kwargs": {"enable_thinking": False}}, "switch"),
    "DeepSeek's template": ({"chat_template_kwargs": {"thinking": False}}, "switch"),
    "one of two switches of the template": (
        {"chat_template_kwargs": {"enable_thinking": True, "thinking": False}},
        "switch",
    ),
    "an effort of the template": ({"chat_template_kwargs": {"reasoning_effort": "none"}}, "effort"),
    "other arguments of the template": ({"chat_template_kwargs": {"a": False, "enable_thinking": "no"}}, None),
    "no arguments": ({"chat_template_kwargs": None}, None),
    "OpenRouter's switch": ({"reasoning": {"enabled": False}}, "switch"),
    "OpenRouter's switch that is on": ({"reasoning": {"enabled": True, "effort": "none"}}, None),
    "OpenRouter's effort": ({"reasoning": {"effort": "none"}}, "effort"),
    "an object about something else": ({"reasoning": {"exclude": False}}, None),
    "an object of another type": ({"reasoning": "none"}, None),
    "a type": ({"thinking": {"type": "disabled"}}, "switch"),
    "a type that is on": ({"thinking": {"type": "adaptive"}}, None),
    "a type that is neither": ({"thinking": {"type": "auto"}}, None),
    "a type of another type": ({"thinking": {"type": ["disabled"]}}, None),
    "no effort": ({"reasoning_effort": "none"}, "effort"),
    "an effort": ({"reasoning_effort": "low"}, None),
    "no effort, and a switch that is on": (
        {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
        None,
    ),
    "an effort, and a switch that is off": ({"reasoning_effort": "high", "thinking": {"type": "disabled"}}, "switch"),
}


@pytest.mark.parametrize(("body", "off"), BODIES.values(), ids=BODIES)
def test_every_spelling_that_turns_thinking_off_is_recognized(body: Json, off: str | None) -> None:
    assert find_thinking_off(body) == off


@pytest.mark.parametrize("value", ["x", ["a"], 1, "", []], ids=repr)
@pytest.mark.parametrize("thinking", [True, False, None])
def test_arguments_of_the_template_that_are_no_object_are_refused(thinking: bool | None, value: Any) -> None:
    profile = Profile(thinking_switch="chat_template_kwargs")
    with pytest.raises(InvalidRequest) as refused:
        switch_thinking({"chat_template_kwargs": value}, thinking, "none", profile, [])
    assert (refused.value.param, refused.value.code) == ("chat_template_kwargs", "invalid_type")
    with pytest.raises(InvalidRequest):
        find_thinking_off({"chat_template_kwargs": value})
