"""Parameters under the names of OpenAI's APIs in turns of clients whose API has no name for them."""

from typing import Any

import pytest

from translation.foreign_params import _SHARED_TYPES, apply_foreign_params
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

FORMAT: Json = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
FULL_FORMAT: Json = {**FORMAT, "description": "d", "strict": None}

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
    "a verbosity in both forms": ({"verbosity": "low", "text": {"verbosity": "high"}}, {}, {"verbosity": "low"}),
    "a format": ({"text": {"format": FORMAT}}, {}, {"text_format": FORMAT}),
    "a format with all its keys": ({"text": {"format": FULL_FORMAT}}, {}, {"text_format": FULL_FORMAT}),
    "a format without a schema": ({"text": {"format": {"type": "json_object"}}}, {},
                                  {"text_format": {"type": "json_object"}}),
    "the format of plain text": ({"text": {"format": {"type": "text"}}}, {}, {}),
    "a format that is given": ({"text": {"format": FORMAT}}, {"text_format": {"type": "json_object"}},
                               {"text_format": {"type": "json_object"}}),
    "a format and a verbosity": ({"text": {"format": FORMAT, "verbosity": "low"}}, {},
                                 {"text_format": FORMAT, "verbosity": "low"}),
    "a format beside a verbosity": ({"text": {"format": FORMAT}, "verbosity": "low"}, {},
                                    {"text_format": FORMAT, "verbosity": "low"}),
    "a text without a format": ({"text": {"format": None, "verbosity": "low"}}, {}, {"verbosity": "low"}),
    "a budget": ({"reasoning": {"max_tokens": 5}}, {}, {"reasoning": {"max_tokens": 5}}),
    "a budget beside an effort": (
        {"reasoning": {"max_tokens": 5}},
        {"reasoning": {"effort": "low"}},
        {"reasoning": {"max_tokens": 5, "effort": "low"}},
    ),
    "a budget that is given": (
        {"reasoning": {"max_tokens": 5}}, {"reasoning": {"max_tokens": 9}}, {"reasoning": {"max_tokens": 9}}
    ),
    "a budget with what has no place": (
        {"reasoning": {"max_tokens": 5, "exclude": True}, "a": 1},
        {},
        {"reasoning": {"max_tokens": 5}, "extra": {"reasoning": {"exclude": True}, "a": 1}},
    ),
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


ODD: list[tuple[str, Any]] = [
    ("user", 5),
    ("metadata", "a"),
    *((name, True) for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")),
    ("temperature", "1"),
    ("seed", 1.5),
    ("store", 1),
    ("verbosity", 1),
    ("text", "low"),
    ("reasoning", "low"),
    ("reasoning", {"max_tokens": "much"}),
    ("reasoning", {"max_tokens": True}),
    ("reasoning", {"effort": "low"}),
    ("text", {}),
    ("text", {"format": FORMAT | {"name": None}}),
    ("text", {"format": FORMAT | {"schema": "a"}}),
    ("text", {"format": FORMAT | {"strict": "yes"}}),
    ("text", {"format": FORMAT | {"new": 1}}),
    ("text", {"format": {"type": "grammar"}}),
    ("text", {"new": 1}),
    ("tool_choice", "other"),
    ("parallel_tool_calls", "no"),
]


@pytest.mark.parametrize(("name", "value"), ODD)
def test_a_value_of_another_type_remains_a_loss(name: str, value: Any) -> None:
    turn = Turn("m", [], tools=[TOOL], extra={name: value})
    assert apply_foreign_params(turn) == turn


@pytest.mark.parametrize(("name", "types"), [(name, _SHARED_TYPES[name]) for name in sorted(_SHARED_TYPES)])
def test_a_boolean_is_applied_only_where_the_parameter_is_one(name: str, types: tuple[type[Any], ...]) -> None:
    turn = apply_foreign_params(Turn("m", [], extra={name: True}))
    assert (name in turn.sampling, name in turn.extra) == (types == (bool,), types != (bool,))


def test_only_what_is_applied_is_taken_out_of_an_object() -> None:
    text = {"format": {"type": "grammar"}, "new": 1, "verbosity": "low"}
    turn = apply_foreign_params(Turn("m", [], extra={"text": text}))
    assert turn == Turn("m", [], verbosity="low", extra={"text": {"format": {"type": "grammar"}, "new": 1}})


def test_a_budget_of_no_thinking_remains_a_loss() -> None:
    turn = Turn("m", [], thinking=False, extra={"reasoning": {"max_tokens": 5}})
    assert apply_foreign_params(turn) == turn


def test_a_choice_of_another_type_remains_a_loss() -> None:
    turn = Turn("m", [], tools=[TOOL], extra={"tool_choice": {"type": "mcp"}})
    assert apply_foreign_params(turn) == turn
