"""Responses requests that are relayed to a Responses upstream."""

from typing import Any

import pytest

from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.responses.relaying.request import relay_body

Json = dict[str, Any]

BODIES: dict[str, tuple[Json, Json]] = {
    "the upstream's name for the model": ({}, {}),
    "nothing that is the gateway's": ({"thinking": None, "extensions": False}, {}),
    "no empty lists of tools and includes": ({"tools": [], "include": []}, {}),
    "an include of the gateway": ({"include": ["x", "gateway.report"]}, {"include": ["x"]}),
    "only an include of the gateway": ({"include": ["gateway.report"]}, {}),
    "full lists": ({"tools": [{"type": "mcp"}], "include": ["x"]}, {"tools": [{"type": "mcp"}], "include": ["x"]}),
    "what only a server with state can honour": ({"previous_response_id": "r"}, {"previous_response_id": "r"}),
    "nulls, which the API takes": ({"temperature": None}, {"temperature": None}),
}


@pytest.mark.parametrize(("params", "expected"), BODIES.values(), ids=BODIES)
def test_the_upstream_gets(params: Json, expected: Json) -> None:
    body = {"model": "m", "input": "Hi", **params}
    assert relay_body(body, DEFAULT_PROFILE, model="theirs") == ({"model": "theirs", "input": "Hi", **expected}, [])
    assert body == {"model": "m", "input": "Hi", **params}, "the client's body is not changed"


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


def test_tools_are_relayed_in_the_form_of_the_upstream() -> None:
    profile = Profile(schema_shims=frozenset({"no_schema_key"}), parallel_tool_calls=False)
    tools = [{"type": "function", "name": "f", "parameters": {"$schema": "s"}}]
    body, _ = relay_body({"model": "m", "input": "Hi", "tools": tools}, profile, model="m")
    assert body["tools"] == [{"type": "function", "name": "f", "parameters": {}}]
    assert body["parallel_tool_calls"] is False
    params = {"model": "m", "input": "Hi", "tools": tools, "parallel_tool_calls": True}
    assert relay_body(params, profile, model="m").body["parallel_tool_calls"] is True
    assert "parallel_tool_calls" not in relay_body({"model": "m", "input": "Hi"}, profile, model="m").body


def pair(call_id: str, **more: Any) -> list[Json]:
    call = {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **more}
    return [call, {"type": "function_call_output", "call_id": call_id, "output": "ok"}]


def ids_of(body: Json) -> list[str]:
    sent = relay_body({"model": "m", **body}, DEFAULT_PROFILE, model="m").body
    return [item["call_id"] for item in sent["input"] if "call_id" in item]


def test_each_call_is_sent_with_an_id_of_its_own() -> None:
    user = {"role": "user", "content": "Hi"}
    assert ids_of({"input": [*pair(""), user, *pair("x"), *pair("x")]}) == ["tc_1", "tc_1", "x", "x", "x__2", "x__2"]


UNSEEN: dict[str, Json] = {
    "of a response": {"previous_response_id": "r"},
    "of a conversation": {"conversation": "c"},
    "of a prompt": {"prompt": {"id": "p"}},
}


@pytest.mark.parametrize("params", UNSEEN.values(), ids=UNSEEN)
def test_ids_are_unchanged_if_the_upstream_stores_calls(params: Json) -> None:
    given = [*pair("x")[1:], *pair("x"), *pair("")]
    assert relay_body({"model": "m", "input": given, **params}, DEFAULT_PROFILE, model="m").body["input"] is given


def test_incomplete_pairs_accepted_before_are_accepted_here() -> None:
    assert ids_of({"input": [*pair("x")[1:], *pair("x"), *pair("x"), *pair("y")[:1]]}) == [
        *("x", "x", "x", "x__2", "x__2", "y")
    ]


THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
CONTENT = [{"type": "reasoning_text", "text": "Hm."}]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (THOUGHT, {**THOUGHT, "content": CONTENT}),
        (
            {"type": "reasoning", "content": CONTENT},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": CONTENT},
        ),
        ({**THOUGHT, "encrypted_content": "x"}, {**THOUGHT, "encrypted_content": "x"}),
    ],
    ids=["a summary", "text without an id", "what the upstream sealed"],
)
def test_past_reasoning_has_the_text_that_servers_of_open_models_read(sent: Json, expected: Json) -> None:
    user = {"role": "user", "content": "Hi"}
    body, losses = relay_body({"model": "m", "input": [user, sent]}, DEFAULT_PROFILE, model="m")
    assert (body["input"], losses) == ([user, expected], [])


def test_an_upstream_that_reads_only_its_own_seals_gets_reasoning_unchanged() -> None:
    body, _ = relay_body({"model": "m", "input": [THOUGHT]}, Profile(replay_reasoning="none"), model="m")
    assert body["input"] == [THOUGHT]


def test_system_messages_become_instructions_where_the_upstream_accepts_no_others() -> None:
    profile = Profile(system_messages="merge_all")
    late: Json = {"role": "system", "content": "Be kind."}
    user = INPUT[0]
    body, losses = relay_body({"model": "m", "instructions": "Be short.", "input": [user, late]}, profile, model="m")
    assert body == {"model": "m", "instructions": "Be short.\n\nBe kind.", "input": [user]}
    assert losses == [Loss("input", "system messages merged")]
    assert relay_body({"model": "m", "input": [user]}, profile, model="m") == ({"model": "m", "input": [user]}, [])
    assert "instructions" not in relay_body({"model": "m", "input": "Hi"}, profile, model="m").body


def test_the_format_of_the_answer_is_relayed_in_the_form_of_the_upstream() -> None:
    profile = Profile(schema_shims=frozenset({"no_schema_key"}))
    answer_format: Json = {"type": "json_schema", "name": "n", "schema": {"$schema": "s", "type": "object"}}
    text: Json = {"format": answer_format, "verbosity": "low"}
    relayed, losses = relay_body({"model": "m", "input": "Hi", "text": text}, profile, model="m")
    assert relayed["text"] == {"format": {**answer_format, "schema": {"type": "object"}}, "verbosity": "low"}
    assert losses == []
    assert text["format"]["schema"] == {"$schema": "s", "type": "object"}, "the client's body is not changed"
    plain: Json = {"verbosity": "low"}
    assert relay_body({"model": "m", "input": "Hi", "text": plain}, profile, model="m").body["text"] is plain
