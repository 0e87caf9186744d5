"""A turn as every upstream can take it."""

from typing import Any

from gateway.planning.prepare_turn import normalize_turn
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

ITEMS: list[Item] = [
    {"type": "function_call", "call_id": "", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "", "output": "x" * 50},
]
TOOL = {"type": "function", "name": "f", "description": "Does f.", "parameters": {"$schema": "s", "required": []}}


def turn(**params: Any) -> Turn:
    return Turn(**{"model": "m", "items": [], **params})


def test_a_normalized_turn_is_unchanged() -> None:
    given = turn(tools=[TOOL])
    losses: list[Loss] = []
    assert normalize_turn(given, DEFAULT_PROFILE, losses) is given
    assert losses == []


def test_items_and_tools_are_normalized_at_once() -> None:
    shims = frozenset({"no_schema_key", "no_empty_required", "no_descriptions"})
    profile = Profile(max_tool_output_bytes=30, schema_shims=shims)  # type: ignore[arg-type]
    losses: list[Loss] = []
    tidy = normalize_turn(turn(items=ITEMS, tools=[TOOL]), profile, losses)
    assert [item["call_id"] for item in tidy.items] == ["tc_1", "tc_1"]
    assert tidy.items[1]["output"] == "x" * 19 + "[truncated]"
    assert tidy.tools == [{"type": "function", "name": "f", "parameters": {}}]
    assert losses == [Loss("input[1].output", "truncated"), Loss("tools[0].description", "dropped")]


def test_the_configured_parallel_calls_apply_if_the_request_has_tools_and_no_value() -> None:
    profile = Profile(parallel_tool_calls=False)
    assert normalize_turn(turn(tools=[TOOL]), profile, []).parallel_tool_calls is False
    assert normalize_turn(turn(tools=[TOOL], parallel_tool_calls=True), profile, []).parallel_tool_calls is True
    assert normalize_turn(turn(), profile, []).parallel_tool_calls is None
