"""Defaults of the operator in requests of Ollama's API, and the client's parameter names in messages."""

import pytest

from translation.ollama.client.defaults import add_defaults
from translation.ollama.client.param_names import PARAM_NAMES
from translation.representation.json_types import Json

DEFAULTS: list[tuple[Json, Json, Json]] = [
    ({"temperature": 0.5, "max_tokens": 5}, {}, {"options": {"temperature": 0.5, "num_predict": 5}}),
    ({"max_output_tokens": 5}, {"options": {"num_predict": 7}}, {"options": {"num_predict": 7}}),
    ({"top_k": 5}, {"options": {"top_k": None, "seed": 1}}, {"options": {"top_k": 5, "seed": 1}}),
    ({"repetition_penalty": 1.1}, {"options": None}, {"options": {"repeat_penalty": 1.1}}),
    ({"reasoning_effort": "xhigh"}, {}, {"think": "max"}),
    ({"reasoning": {"effort": "none"}}, {}, {"think": False}),
    ({"reasoning": {"effort": "low"}, "thinking": True}, {}, {"think": "low"}),
    ({"thinking": True, "verbosity": "low"}, {}, {"think": True, "verbosity": "low"}),
    ({"thinking": False, "reasoning_effort": "high"}, {}, {"think": False}),
    ({"thinking": True}, {"think": False}, {"think": False}),
    ({"thinking": {"type": "enabled", "budget_tokens": 5}}, {}, {"think": True, "reasoning": {"max_tokens": 5}}),
    ({"reasoning": {"max_tokens": 5}}, {"think": None}, {"reasoning": {"max_tokens": 5}}),
    ({"reasoning": {"max_tokens": 5}}, {"think": True}, {"think": True}),
    ({"reasoning": {"max_tokens": 5}, "thinking": False}, {}, {"think": False}),
    ({"service_tier": "flex"}, {"format": None}, {"service_tier": "flex"}),
]


@pytest.mark.parametrize(("defaults", "body", "filled"), DEFAULTS, ids=str)
def test_a_default_fills_a_missing_parameter(defaults: Json, body: Json, filled: Json) -> None:
    assert add_defaults(body, defaults) == filled


NAMES: list[tuple[str, str, str, Json, str]] = [
    ("temperature", "", "", {}, "options.temperature"),
    ("num_ctx", "", "", {"options": {"num_ctx": 5}}, "options.num_ctx"),
    ("reasoning", "", ".effort", {"options": None}, "think"),
    ("text", "", ".format", {"text": 1}, "text.format"),
    ("text", "", ".format", {}, "format"),
    ("tools", "[1]", ".name", {}, "tools[1].name"),
    ("input", "[2]", ".content[0]", {"messages": []}, "messages[2]"),
    ("input", "[0]", ".content[0]", {"prompt": "x"}, "prompt"),
]


@pytest.mark.parametrize(("name", "place", "rest", "body", "expected"), NAMES)
def test_parameters_have_the_clients_names(name: str, place: str, rest: str, body: Json, expected: str) -> None:
    assert "".join(PARAM_NAMES.find(name, place, rest, body)) == expected
