"""Parameters under the names of OpenAI's APIs in turns of clients whose API has no name for them."""

from typing import Any

import pytest

from translation.foreign_params import apply_foreign_params
from translation.representation.json_types import Json
from translation.representation.turn import Turn

TOOL: Json = {"type": "function", "name": "f", "parameters": {}}
TOOLS: Json = {"tools": [TOOL]}
CHOICE: Json = {"type": "function", "name": "f"}
SHARED: Json = {
    "logit_bias": {"1": 2},
    "metadata": {"a": "b"},
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "safety_identifier": "s",
    "seed": 1,
    "service_tier": "flex",
    "store": False,
    "temperature": 0.5,
    "user": "ada",
}

APPLIED: dict[str, tuple[Json, Json, Json]] = {
    # extra, the rest of the turn, and what differs
    "nothing": ({"top_k": 3}, {}, {"extra": {"top_k": 3}}),
    "what OpenAI's APIs share": (SHARED, {}, {"sampling": SHARED}),
    "what the client has said": (
        {"temperature": 0.5, "user": "ada"},
        {"sampling": {"temperature": 1}},
        {"sampling": {"temperature": 1, "user": "ada"}},
    ),
    "a verbosity": ({"verbosity": "low"}, {}, {"verbosity": "low"}),
    "a verbosity in the Responses API's words": ({"text": {"verbosity": "low"}, "a": 1}, {},
                                                 {"verbosity": "low", "extra": {"a": 1}}),
    "a verbosity that is given": ({"verbosity": "low"}, {"verbosity": "high"}, {"verbosity": "high"}),
    "a choice": ({"tool_choice": "required"}, TOOLS, {"tool_choice": "required"}),
    "a choice of one tool": ({"tool_choice": CHOICE}, TOOLS, {"tool_choice": CHOICE}),
    "a choice in chat's words": (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}}, TOOLS, {"tool_choice": CHOICE}
    ),
    "a choice that is given": (
        {"tool_choice": "required"}, {**TOOLS, "tool_choice": "none"}, {"tool_choice": "none"}
    ),
    "a choice without tools": ({"tool_choice": "required"}, {}, {}),
    "one call at a time": ({"parallel_tool_calls": False}, TOOLS, {"parallel_tool_calls": False}),
    "one call at a time, as it is given": (
        {"parallel_tool_calls": False}, {**TOOLS, "parallel_tool_calls": True}, {"parallel_tool_calls": True}
    ),
    "one call at a time without tools": ({"parallel_tool_calls": False}, {}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("extra", "given", "expected"), APPLIED.values(), ids=APPLIED)
def test_a_parameter_has_its_place_in_the_turn(extra: Json, given: Json, expected: Json) -> None:
    turn = apply_foreign_params(Turn("m", [], extra=extra, **given))
    assert turn == Turn("m", [], **{**given, "extra": {}, **expected})


ODD: dict[str, Any] = {
    "user": 5,
    "metadata": "a",
    "verbosity": 1,
    "text": "low",
    "tool_choice": "other",
    "parallel_tool_calls": "no",
}


@pytest.mark.parametrize("name", ODD)
def test_a_value_of_another_type_remains_a_loss(name: str) -> None:
    turn = Turn("m", [], tools=[TOOL], extra={name: ODD[name]})
    assert apply_foreign_params(turn) == turn


def test_a_choice_of_another_type_remains_a_loss() -> None:
    turn = Turn("m", [], tools=[TOOL], extra={"tool_choice": {"type": "mcp"}})
    assert apply_foreign_params(turn) == turn
