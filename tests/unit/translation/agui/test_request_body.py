"""A run becomes a Responses request that follows what is stored of its thread."""

from typing import Any

import pytest

from tests.unit.translation.agui.run_requests import (
    APPROVED_CALL,
    HELLO,
    MORE,
    STORED_ANSWER,
    STORED_HELLO,
    Json,
    build,
    calling,
    result,
    types,
)
from translation.agui.messages import NO_RESULT
from translation.agui.request_body import build_run_request
from translation.agui.run import choose_state
from translation.errors import InvalidRequest

ANSWER: Json = {"id": "msg_1", "role": "assistant", "content": "Hi"}
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
LISTED: Json = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "docs", "tools": []}
CALL: Json = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
OUTPUT: Json = {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "3"}


def test_a_first_run_is_its_messages() -> None:
    request = build(HELLO)
    assert request.body == {
        "model": "m",
        "stream": True,
        "input": [{"type": "message", "role": "user", "content": "hello"}],
        "include": ["reasoning.encrypted_content"],
    }
    assert (request.history, request.losses, request.results, request.unanswered) == ((), [], {}, [])


def test_stored_messages_are_the_history() -> None:
    stored = [STORED_HELLO, LISTED, REASONING, STORED_ANSWER]
    request = build(HELLO, ANSWER, MORE, stored=stored)
    assert request.history == stored
    assert [item["content"] for item in request.body["input"]] == ["more"]


def test_reasoning_stored_by_the_client_is_not_sent_twice() -> None:
    thought = {"id": "rs_1:0", "role": "reasoning", "content": "Hm."}
    stored = [STORED_HELLO, REASONING, STORED_ANSWER]
    assert build(HELLO, thought, ANSWER, MORE, stored=stored).body["input"][0]["content"] == "more"
    new = build(HELLO, ANSWER, thought, MORE, stored=stored).body["input"]
    assert types(new) == ["reasoning", "message"]


@pytest.mark.parametrize(
    ("messages", "kept", "sent"),
    [
        ([HELLO, MORE], 1, 1),  # The answer was deleted, to get another one.
        ([{**HELLO, "content": "good day"}], 0, 1),
        ([HELLO, {**ANSWER, "content": "Ho"}, MORE], 1, 2),
        ([MORE], 0, 1),
        ([], 2, 0),  # A client without messages has deleted none.
    ],
)
def test_a_history_changed_by_the_client_replaces_the_stored_one(messages: list[Json], kept: int, sent: int) -> None:
    request = build(*messages, stored=[STORED_HELLO, STORED_ANSWER])
    assert (len(request.history), len(request.body["input"])) == (kept, sent)


def test_messages_with_media_are_compared_as_a_whole() -> None:
    image = {"type": "image", "source": {"type": "url", "value": "http://a"}}
    other = {"type": "image", "source": {"type": "url", "value": "http://b"}}
    sent = {**HELLO, "content": [image]}
    stored = build(sent).body["input"]
    assert build(sent, MORE, stored=stored).history == stored
    assert build({**HELLO, "content": [other]}, MORE, stored=stored).history == []


def test_a_frontend_result_answers_the_stored_call() -> None:
    request = build(HELLO, calling("call_1"), result("call_1"), stored=[STORED_HELLO, CALL])
    assert request.body["input"] == [{"type": "function_call_output", "call_id": "call_1", "output": "3"}]


def test_a_result_that_is_stored_is_not_sent_again() -> None:
    request = build(HELLO, calling("call_1"), result("call_1"), MORE, stored=[STORED_HELLO, CALL, OUTPUT])
    assert types(request.body["input"]) == ["message"]
    assert not request.losses


def test_a_late_result_is_used() -> None:
    stored = [STORED_HELLO, CALL, {**OUTPUT, "output": NO_RESULT}]
    request = build(HELLO, calling("call_1"), result("call_1"), MORE, stored=stored)
    assert types(request.body["input"]) == ["function_call", "function_call_output", "message"]
    assert request.body["input"][1]["output"] == "3"


def test_fault_83_a_stream_that_broke_after_a_frontend_call_leaves_no_dead_end() -> None:
    request = build(HELLO, calling("call_1"), MORE, stored=[STORED_HELLO, CALL])
    assert types(request.body["input"]) == ["function_call_output", "message"]
    assert request.body["input"][0]["output"] == NO_RESULT
    unstored = build(HELLO, calling("call_1"), MORE, stored=[STORED_HELLO])
    assert types(unstored.body["input"]) == ["function_call", "function_call_output", "message"]


def test_calls_that_the_gateway_ran_are_in_the_history() -> None:
    own = {**APPROVED_CALL, "approval_request_id": None}
    request = build(
        HELLO, calling("mcp_1", "docs_search", '{"q":1}'), result("mcp_1", "found"), stored=[STORED_HELLO, LISTED, own]
    )
    assert (len(request.history), request.body["input"], request.losses) == (3, [], [])


def test_a_result_without_a_call_is_reported() -> None:
    request = build(HELLO, result("call_9"))
    assert [str(loss) for loss in request.losses] == ["messages[1]=dropped"]


def test_the_result_of_a_shell_of_the_client_answers_its_call() -> None:
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": {"commands": ["ls"]}}
    messages = [HELLO, calling("call_1", "shell", '{"action":{"commands":["ls"]}}'), result("call_1", "a.txt")]
    request = build(*messages, stored=[STORED_HELLO, shell])
    assert request.history == [STORED_HELLO]
    assert types(request.body["input"]) == ["function_call", "function_call_output"]
    # The upstream ran this one.
    ran = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "output": []}
    stored = [STORED_HELLO, shell, ran]
    request = build(*messages, stored=stored)
    assert (request.history, request.body["input"], request.losses) == (stored, [], [])


def test_context_and_instructions_hold_for_the_run_only() -> None:
    context = [{"description": "page", "value": "start"}, {"description": "cart", "value": {"items": 2}}]
    props = {"instructions": "Be brief."}
    request = build(HELLO, context=context, forwardedProps=props)
    assert request.body["instructions"] == (
        'Be brief.\n\nContext from the application:\npage: start\ncart: {"items":2}'
    )
    assert len(request.body["input"]) == 1


def test_the_state_is_for_the_model_only_if_the_client_wants_it() -> None:
    request = build(HELLO, state={"a": 1})
    assert "instructions" not in request.body
    assert [str(loss) for loss in request.losses] == ["state=not sent"]
    shown = build(HELLO, state={"a": 1}, forwardedProps={"include_state": True})
    assert shown.body["instructions"].endswith('State of the application: {"a":1}')
    assert not shown.losses
    assert not build(HELLO, state={}).losses
    stored = build_run_request(
        {"messages": [HELLO], "state": {"a": 1}, "threadId": "t", "runId": "r"}, model="m", stores_state=True
    )
    assert (stored.losses, stored.body.get("instructions")) == ([], None)


@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        ({}, {"a": 1}),
        ({"state": None}, {"a": 1}),
        ({"state": {}}, {"a": 1}),
        ({"state": {"b": 2}}, {"b": 2}),
        ({"state": 0}, 0),
        ({"forwardedProps": {"reset_state": True}}, None),
        ({"state": {"b": 2}, "forwardedProps": {"reset_state": True}}, {"b": 2}),
    ],
)
def test_a_client_without_a_state_gets_that_of_its_thread(body: Json, chosen: Any) -> None:
    assert choose_state(body, {"a": 1}) == chosen


def test_parameters_are_forwarded_and_other_properties_reported() -> None:
    props = {"temperature": 0.5, "include": ["message.output_text.logprobs"], "threadMetadata": {}, "seed": None}
    request = build(HELLO, forwardedProps=props)
    assert request.body["temperature"] == 0.5
    assert request.body["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]
    assert "seed" not in request.body
    assert [str(loss) for loss in request.losses] == ["forwardedProps.threadMetadata=dropped"]


def test_keys_that_the_schema_does_not_have_are_losses() -> None:
    part = {"type": "text", "text": "hello", "id": "p1", "weight": 2}
    question = {"id": "1", "role": "user", "name": "Ada", "content": [part], "metadata": {"shown": True}}
    call = {**calling("c"), "encryptedValue": "x", "subagentRunId": "s"}
    activity = {"id": "a", "role": "activity", "activityType": "PLAN", "content": {"steps": []}}
    request = build(
        *(question, activity, call, result("c")),
        model="m",
        modelSettings={"temperature": 0},
        extension=None,
        tools=[{"name": "add", "strict": True, "metadata": {"a": 1}}],
        context=[{"description": "d", "value": 1, "priority": 1}],
    )
    assert sorted(str(loss) for loss in request.losses) == [
        "context.priority=dropped",
        "messages.content.weight=dropped",
        "messages.name=dropped",
        "modelSettings=dropped",
        "tools.strict=dropped",
    ]


def test_sealed_reasoning_is_requested_once() -> None:
    props = {"include": ["reasoning.encrypted_content"]}
    assert build(HELLO, forwardedProps=props).body["include"] == ["reasoning.encrypted_content"]


def test_tools_of_the_client_are_functions_and_hosted_tools_follow() -> None:
    hosted = {"type": "mcp", "server_label": "docs", "server_url": "http://a"}
    tools = [{"name": "add", "description": "adds", "parameters": {"type": "object"}}, {"name": "now"}]
    request = build(HELLO, tools=tools, forwardedProps={"tools": [hosted]})
    assert [tool.get("name") for tool in request.body["tools"]] == ["add", "now", None]
    assert request.body["tools"][1]["parameters"] == {"type": "object", "properties": {}}
    assert request.names["tools[2].server_url"] == "forwardedProps.tools[0].server_url"


def test_parameters_have_the_clients_names() -> None:
    names = build(HELLO, MORE, result("x"), tools=[{"name": "add"}]).names
    assert names["temperature"] == "forwardedProps.temperature"
    assert names["reasoning.effort"] == "forwardedProps.reasoning.effort"
    assert names["input[1].content"] == "messages[1]"
    assert names["input"] == "messages"
    assert "temperature" in set(names)
    assert len(names) > 5
    for unknown in ("model", "tools[0].name", "input[7]", "input[x]", "other"):
        assert names.get(unknown, "same") == "same"


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ({"type": "mcp"}, "forwardedProps.tools"),
        (["mcp"], "forwardedProps.tools[0]"),
        ([{"type": "function", "name": "add"}], "forwardedProps.tools[0]"),
    ],
)
def test_forwarded_tools_are_hosted_tools(tools: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        build(HELLO, forwardedProps={"tools": tools})
    assert refused.value.param == param
