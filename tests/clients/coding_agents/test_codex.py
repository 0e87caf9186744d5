"""Codex CLI, headless."""

import base64
import json
from typing import Any

from structlog.testing import capture_logs

from tests.clients.coding_agents.codex import Codex, items, message_texts
from tests.clients.conftest import Answer
from tests.serving import Gateway
from tests.upstream import Request, ScriptedUpstream, chat_calls, chat_chunk, chat_sse, chat_text, error_reply

Json = dict[str, Any]

FREEFORM = "gpt-5.5"
"""A model of its catalogue that gets freeform tools and tool search."""

LITE = "gpt-6-sol"
"""A model of its catalogue whose tools come as an input item."""

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def tool_names(request: Request) -> list[str]:
    return [tool["function"]["name"] for tool in request.json["tools"]]


async def test_text_is_displayed(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Good ", "day."))
    events = await codex.do("Say good day.")
    assert message_texts(events) == ["Good day."]
    assert events[-1]["usage"]["input_tokens"] == 9
    assert "web_search" not in tool_names(upstream.requests[0]), "nobody behind the gateway can run it"


async def test_calls_of_the_demo_model_run(codex: Codex) -> None:
    events = await codex.do("Use exec_command.", model="demo")
    assert message_texts(events)[0].startswith("exec_command returned: ")


async def test_reasoning_is_sent_back(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    opening = chat_chunk({"role": "assistant", "reasoning_content": "They want "})
    call = chat_chunk({"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "exec_command"}}]})
    arguments = chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"cmd":"true"}'}}]})
    thought = chat_chunk({"reasoning_content": "a command."})
    answer(chat_sse([opening, thought, call, arguments, chat_chunk({}, "tool_calls")]), chat_text("Done."))
    assert message_texts(await codex.do("Do nothing.")) == ["Done."]
    assert upstream.requests[1].json["messages"][-2]["reasoning_content"] == "They want a command."


async def test_a_command_runs_and_its_output_is_sent_back(
    codex: Codex, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(chat_calls(("exec_command", '{"cmd":"echo forty-$((1+1))"}')), chat_text("It says forty-2."))
    events = await codex.do("Run it.")
    (command,) = items(events, "command_execution")
    assert (command["exit_code"], command["aggregated_output"]) == (0, "forty-2\n")
    assert message_texts(events) == ["It says forty-2."]
    call, output = upstream.requests[1].json["messages"][-2:]
    assert call["tool_calls"][0]["function"]["name"] == "exec_command"
    assert "forty-2" in output["content"]


async def test_two_commands_at_once_are_answered_in_one_turn(
    codex: Codex, answer: Answer, upstream: ScriptedUpstream
) -> None:
    answer(
        chat_calls(("exec_command", '{"cmd":"echo one"}'), ("exec_command", '{"cmd":"echo two"}')), chat_text("Both.")
    )
    events = await codex.do("Run them.")
    assert sorted(item["aggregated_output"] for item in items(events, "command_execution")) == ["one\n", "two\n"]
    calls, first, second = upstream.requests[1].json["messages"][-3:]
    assert [call["id"] for call in calls["tool_calls"]] == ["call_0", "call_1"]
    assert "one" in first["content"]
    assert "two" in second["content"]


async def test_a_freeform_patch_is_applied(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    patch = "*** Begin Patch\n*** Add File: hello.txt\n+Good day\n*** End Patch\n"
    answer(chat_calls(("apply_patch", json.dumps({"input": patch}))), chat_text("Done."))
    events = await codex.do("Make the file.", model=FREEFORM)
    assert (codex.folder / "hello.txt").read_text() == "Good day\n"
    (change,) = items(events, "file_change")
    assert change["status"] == "completed"
    tools = {tool["function"]["name"]: tool["function"] for tool in upstream.requests[0].json["tools"]}
    assert "begin_patch" in tools["apply_patch"]["description"]


async def test_a_tool_of_an_mcp_server_runs(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_calls(("mcp__adder__add_numbers", '{"a":2,"b":40}')), chat_text("It is 42."))
    (call,) = items(await codex.do("Add."), "mcp_tool_call")
    assert (call["server"], call["tool"], call["status"]) == ("adder", "add_numbers", "completed")
    assert "42" in upstream.requests[1].json["messages"][-1]["content"]


async def test_a_tool_found_by_search_can_be_called(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(
        chat_calls(("tool_search", '{"query":"add numbers"}')),
        chat_calls(("mcp__adder__add_numbers", '{"a":2,"b":40}')),
        chat_text("It is 42."),
    )
    events = await codex.do("Add.", model=FREEFORM)
    assert message_texts(events) == ["It is 42."]
    (call,) = items(events, "mcp_tool_call")
    assert call["status"] == "completed"
    assert "mcp__adder__add_numbers" not in tool_names(upstream.requests[0])
    assert "mcp__adder__add_numbers" in tool_names(upstream.requests[1])


async def test_tools_declared_in_the_input_are_called(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    program = 'const ran = await tools.exec_command({cmd: "echo forty-$((1+1))"}); text(ran.output);'
    answer(chat_calls(("functions__exec", json.dumps({"input": program}))), chat_text("It says forty-2."))
    assert message_texts(await codex.do("Run it.", model=LITE)) == ["It says forty-2."]
    assert "forty-2" in upstream.requests[1].json["messages"][-1]["content"]


async def test_an_image_a_tool_returns_reaches_the_model_as_an_image(
    codex: Codex, answer: Answer, upstream: ScriptedUpstream
) -> None:
    (codex.folder / "dot.png").write_bytes(DOT)
    answer(chat_calls(("view_image", '{"path":"dot.png"}')), chat_text("A dot."))
    assert message_texts(await codex.do("What is on dot.png?", model=FREEFORM)) == ["A dot."]
    output, shown = upstream.requests[1].json["messages"][-2:]
    assert output["role"] == "tool"
    assert "base64" not in output["content"]
    (image,) = [part for part in shown["content"] if part["type"] == "image_url"]
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


async def test_the_output_schema_reaches_the_model(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    schema = {
        "type": "object",
        "properties": {"total": {"type": "integer"}},
        "required": ["total"],
        "additionalProperties": False,
    }
    (codex.folder / "schema.json").write_text(json.dumps(schema))
    answer(chat_text('{"total":42}'))
    assert message_texts(await codex.do("Add 2 and 40.", "--output-schema", "schema.json")) == ['{"total":42}']
    response_format = upstream.requests[0].json["response_format"]
    assert response_format["type"] == "json_schema"
    assert response_format["json_schema"]["schema"] == schema


async def test_a_conversation_is_resumed(codex: Codex, answer: Answer, upstream: ScriptedUpstream) -> None:
    answer(chat_text("Good day, Ada."), chat_text("Ada."))
    await codex.do("I am Ada.")
    assert message_texts(await codex.do("resume", "--last", "Who am I?")) == ["Ada."]
    roles = [(m["role"], m["content"]) for m in upstream.requests[1].json["messages"][-3:]]
    assert roles == [("user", "I am Ada."), ("assistant", "Good day, Ada."), ("user", "Who am I?")]


async def test_the_built_in_provider_keeps_to_one_websocket(
    codex: Codex, answer: Answer, gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    answer(chat_calls(("exec_command", '{"cmd":"echo forty-$((1+1))"}')), chat_text("It says forty-2."))
    built_in = ("--config", "model_provider=openai", "--config", f"openai_base_url={gateway.v1}")
    with capture_logs() as lines:
        events = await codex.do(*built_in, "Run it.", model=FREEFORM)
    assert message_texts(events) == ["It says forty-2."]
    assert [event for event in events if event["type"] == "error"] == [], "each try it repeats is one"
    assert [line["method"] for line in lines if line.get("path") == "/v1/responses"] == ["WEBSOCKET"]
    assert "forty-2" in upstream.requests[1].json["messages"][-1]["content"]


async def test_an_upstream_error_is_displayed_once(codex: Codex, upstream: ScriptedUpstream) -> None:
    upstream.script(error_reply(400, "The prompt is too strange.", code="strange_prompt"))
    events = await codex.do("Say good day.", fails=True)
    assert "The prompt is too strange." in events[-1]["error"]["message"]
    assert len(upstream.requests) == 1


async def test_a_truncated_answer_is_not_taken_for_a_complete_one(codex: Codex, upstream: ScriptedUpstream) -> None:
    upstream.script(chat_sse([chat_chunk({"role": "assistant", "content": "Good"})], done=False))
    events = await codex.do("Say good day.", fails=True)
    assert events[-1]["type"] == "turn.failed"
