"""Defaults that an operator writes once and that both APIs understand."""

import pytest

from translation.chat.client.defaults import add_defaults as add_chat_defaults
from translation.messages.client.defaults import add_defaults as add_messages_defaults
from translation.representation.json_types import Json
from translation.responses.client.defaults import add_defaults as add_responses_defaults

_ADDERS = {"chat": add_chat_defaults, "messages": add_messages_defaults, "responses": add_responses_defaults}

DEFAULTS: dict[str, tuple[str, Json, Json, Json]] = {
    "what is left out is added": ("chat", {"temperature": 0.5}, {}, {"temperature": 0.5}),
    "what is given stays": ("chat", {"temperature": 0.5}, {"temperature": 1}, {"temperature": 1}),
    "null is left out": ("chat", {"temperature": 0.5}, {"temperature": None}, {"temperature": 0.5}),
    "chat's limit, in Responses": ("responses", {"max_tokens": 9}, {}, {"max_output_tokens": 9}),
    "chat's newer limit, in Responses": ("responses", {"max_completion_tokens": 9}, {}, {"max_output_tokens": 9}),
    "the Responses API's limit, in chat": ("chat", {"max_output_tokens": 9}, {}, {"max_completion_tokens": 9}),
    "a limit by its other name is given": (
        "chat",
        {"max_tokens": 9},
        {"max_completion_tokens": 5},
        {"max_completion_tokens": 5},
    ),
    "chat's effort, in Responses": ("responses", {"reasoning_effort": "low"}, {}, {"reasoning": {"effort": "low"}}),
    "the Responses API's effort, in chat": ("chat", {"reasoning": {"effort": "low"}}, {}, {"reasoning_effort": "low"}),
    "more than an effort is an upstream's own": (
        "chat",
        {"reasoning": {"effort": "low", "max_tokens": 5}},
        {},
        {"reasoning": {"effort": "low", "max_tokens": 5}},
    ),
    "an effort beside what is given": (
        "responses",
        {"reasoning_effort": "low"},
        {"reasoning": {"effort": None, "summary": "auto"}},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    "a verbosity beside what is given": (
        "responses",
        {"verbosity": "low"},
        {"text": {"format": {"type": "text"}}},
        {"text": {"verbosity": "low", "format": {"type": "text"}}},
    ),
    "a stop, in Messages": ("messages", {"stop": ["x"]}, {}, {"stop_sequences": ["x"]}),
    "an effort, in Messages, beside what is given": (
        "messages",
        {"reasoning_effort": "low", "verbosity": "low"},
        {"output_config": {"effort": None, "format": {}}},
        {"output_config": {"effort": "low", "format": {}}},
    ),
    "the Responses API's effort, in Messages": (
        "messages",
        {"reasoning": {"effort": "low"}},
        {},
        {"output_config": {"effort": "low"}},
    ),
    "a switch, in Messages": ("messages", {"thinking": False}, {}, {"thinking": {"type": "disabled"}}),
    "a switch that is on, in Messages": ("messages", {"thinking": True}, {}, {"thinking": {"type": "adaptive"}}),
    "a limit, in Messages, is always given": (
        "messages",
        {"max_output_tokens": 9},
        {"max_tokens": 5},
        {"max_tokens": 5},
    ),
    "an object that is given is the client's": ("chat", {"metadata": {"a": "b"}}, {"metadata": {}}, {"metadata": {}}),
}


@pytest.mark.parametrize(("dialect", "defaults", "body", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_defaults_fill_in_what_a_client_leaves_out(dialect: str, defaults: Json, body: Json, expected: Json) -> None:
    given = dict(body)
    assert _ADDERS[dialect](body, defaults) == expected
    assert body == given
