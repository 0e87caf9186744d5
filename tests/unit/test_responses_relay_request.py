"""Responses requests on their way to a Responses upstream."""

from typing import Any

import pytest

from translation.loss import Loss
from translation.profile import DEFAULT_PROFILE, Profile
from translation.responses.relay_request import relay_body

Json = dict[str, Any]

BODIES: dict[str, tuple[Json, Json]] = {
    "the upstream's name for the model": ({}, {}),
    "nothing that is the gateway's": ({"thinking": None, "extensions": False}, {}),
    "no empty lists of tools and includes": ({"tools": [], "include": []}, {}),
    "full lists": ({"tools": [{"type": "mcp"}], "include": ["x"]}, {"tools": [{"type": "mcp"}], "include": ["x"]}),
    "what only a server with state can honour": ({"previous_response_id": "r"}, {"previous_response_id": "r"}),
    "nulls, which the API takes": ({"temperature": None}, {"temperature": None}),
}


@pytest.mark.parametrize(("asked", "expected"), BODIES.values(), ids=BODIES)
def test_the_upstream_gets(asked: Json, expected: Json) -> None:
    body = {"model": "m", "input": "Hi", **asked}
    assert relay_body(body, DEFAULT_PROFILE, model="theirs") == ({"model": "theirs", "input": "Hi", **expected}, [])
    assert body == {"model": "m", "input": "Hi", **asked}, "the client's body is not changed"


INPUT: list[Json] = [
    {"id": "msg_1", "role": "user", "content": "Hi"},
    {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "id": "fco_1", "call_id": "c", "output": "x" * 50},
    {"type": "web_search_call", "id": "ws_1"},
]


def test_an_input_is_relayed_as_the_same_object() -> None:
    assert relay_body({"model": "m", "input": INPUT}, DEFAULT_PROFILE, model="m").body["input"] is INPUT


def test_outputs_of_calls_are_cut_on_a_relay_too() -> None:
    body, losses = relay_body({"model": "m", "input": INPUT}, Profile(max_tool_output_bytes=20), model="m")
    assert [item.get("output") for item in body["input"]] == [None, None, "x" * 9 + "[truncated]", None]
    assert losses == [Loss("input[2].output", "truncated")]


def test_ids_are_left_out_where_the_upstream_refuses_them() -> None:
    body, _ = relay_body({"model": "m", "input": INPUT}, Profile(replay_ids="drop"), model="m")
    assert [item.get("id") for item in body["input"]] == [None, None, None, "ws_1"]


def test_tools_are_relayed_as_the_upstream_wants_them() -> None:
    profile = Profile(schema_shims=frozenset({"no_schema_key"}), parallel_tool_calls=False)
    tools = [{"type": "function", "name": "f", "parameters": {"$schema": "s"}}]
    body, _ = relay_body({"model": "m", "input": "Hi", "tools": tools}, profile, model="m")
    assert body["tools"] == [{"type": "function", "name": "f", "parameters": {}}]
    assert body["parallel_tool_calls"] is False
    asked = {"model": "m", "input": "Hi", "tools": tools, "parallel_tool_calls": True}
    assert relay_body(asked, profile, model="m").body["parallel_tool_calls"] is True
    assert "parallel_tool_calls" not in relay_body({"model": "m", "input": "Hi"}, profile, model="m").body
