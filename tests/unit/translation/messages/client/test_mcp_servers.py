"""MCP servers of a request as tools, calls of their tools as blocks, and blocks as history."""

from typing import Any

import pytest

from tests.unit.support.stream_checks.messages_order import read_frames
from translation.errors import InvalidRequest
from translation.messages.client.collect import MessageCollector
from translation.messages.client.encode import MessagesEncoder
from translation.messages.client.lift import lift, read_facts
from translation.messages.client.mcp_servers import lift_mcp_servers
from translation.messages.schema.request import validate
from translation.representation.events import (
    Delta,
    Event,
    Finished,
    ItemEnded,
    ItemStarted,
    PartEnded,
    Progressed,
    Started,
)

Json = dict[str, Any]
CALC: Json = {"type": "url", "name": "calc", "url": "https://calc.example/mcp", "authorization_token": "secret"}
WIKI: Json = {"type": "url", "name": "wiki", "url": "https://wiki.example/mcp"}
TOOLSET: Json = {"type": "mcp_toolset", "mcp_server_name": "calc"}
TOOL: Json = {
    "type": "mcp",
    "server_label": "calc",
    "server_url": CALC["url"],
    "require_approval": "never",
    "authorization": "secret",
}
USER: Json = {"role": "user", "content": "2 + 3?"}


def body(**more: Any) -> Json:
    return {"model": "m", "max_tokens": 10, "messages": [USER], **more}


def test_servers_are_tools_with_and_without_a_toolset() -> None:
    wiki = {"type": "mcp", "server_label": "wiki", "server_url": WIKI["url"], "require_approval": "never"}
    request = body(mcp_servers=[WIKI, CALC], tools=[TOOLSET])
    turn = lift(request)
    assert ([*turn.tools, *read_facts(request).tools.servers], turn.losses, turn.extra) == ([TOOL, wiki], (), {})
    assert {tool["server_label"] for tool in lift_mcp_servers(body(mcp_servers=[WIKI, CALC]))} == {"calc", "wiki"}
    assert lift_mcp_servers(body()) == []
    assert lift(body(mcp_servers=[CALC], tools=[TOOLSET]), relayed=True).tools == []
    assert lift_mcp_servers(body(tools=[TOOLSET])) == [{"type": "mcp", "server_label": "calc"}]


ALLOWED: dict[str, tuple[Json, Any]] = {
    "all": ({"default_config": {"enabled": True}, "configs": {"add": {}}}, None),
    "all but one": ({"configs": {"add": {"enabled": False}, "fail": {}}}, {"excluded_tool_names": ["add"]}),
    "one": ({"default_config": {"enabled": False}, "configs": {"add": {"enabled": True}, "fail": {}}}, ["add"]),
    "none": ({"default_config": {"enabled": False}}, []),
}


@pytest.mark.parametrize(("more", "allowed"), ALLOWED.values(), ids=ALLOWED.keys())
def test_a_toolset_chooses_the_offered_tools(more: Json, allowed: Any) -> None:
    (tool,) = lift_mcp_servers(body(mcp_servers=[CALC], tools=[{**TOOLSET, **more}]))
    assert tool.get("allowed_tools") == allowed


def test_a_server_without_a_toolset_chooses_its_tools_itself() -> None:
    servers = [{**CALC, "tool_configuration": {"allowed_tools": ["add"]}}]
    assert lift_mcp_servers(body(mcp_servers=servers)) == [{**TOOL, "allowed_tools": ["add"]}]
    assert lift_mcp_servers(body(mcp_servers=[{**CALC, "tool_configuration": {"enabled": False}}])) == []


def test_losses_of_toolsets_are_reported() -> None:
    toolset = {**TOOLSET, "tools": [{"name": "add", "input_schema": {}}], "configs": {"add": {"defer_loading": True}}}
    turn = lift(body(mcp_servers=[CALC], tools=[toolset]))
    assert [str(loss) for loss in turn.losses] == ["tools[0].tools=dropped", "tools[0].defer_loading=dropped"]


def test_a_toolset_names_its_server() -> None:
    with pytest.raises(InvalidRequest, match=r"tools\[0\]\.mcp_server_name"):
        validate(body(mcp_servers=[CALC], tools=[{"type": "mcp_toolset"}]))
    with pytest.raises(InvalidRequest, match=r"mcp_servers\[0\]\.type"):
        validate(body(mcp_servers=[{**CALC, "type": "stdio"}]))


def call_events(**end: Any) -> list[Event]:
    item = {"type": "mcp_call", "id": "mcp_1", "server_label": "calc", "name": "add", "arguments": ""}
    return [
        Started("r"),
        ItemStarted(0, item),
        Progressed(0, "in_progress"),
        Delta(0, None, '{"a":'),
        Delta(0, None, "2}"),
        PartEnded(0, None, {"arguments": '{"a":2}'}),
        ItemEnded(0, {**item, "arguments": '{"a":2}', **end}),
        Finished("stop"),
    ]


USE: Json = {"type": "mcp_tool_use", "id": "mcp_1", "name": "add", "input": {"a": 2}, "server_name": "calc"}
ENDS: dict[str, tuple[Json, Json]] = {
    "an output": ({"status": "completed", "output": "5"}, {"is_error": False, "content": "5"}),
    "no output": ({"status": "completed", "output": ""}, {"is_error": False, "content": ""}),
    "an error": (
        {"status": "failed", "error": {"content": [{"type": "text", "text": "no"}]}},
        {"is_error": True, "content": "no"},
    ),
    "an end before its result": ({"status": "incomplete"}, {"is_error": True, "content": ""}),
}


@pytest.mark.parametrize(("end", "result"), ENDS.values(), ids=ENDS.keys())
def test_a_call_is_a_block_and_its_result_another(end: Json, result: Json) -> None:
    text = result["content"]
    blocks = [
        USE,
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcp_1",
            "is_error": result["is_error"],
            "content": [{"type": "text", "text": text}] if text else [],
        },
    ]
    collector = MessageCollector(message_id="msg_1", model="m", thinking="none")
    collector.feed(call_events(**end))
    message = collector.result()
    assert (message["content"], message["stop_reason"]) == (blocks, "end_turn")
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    before, after = call_events(**end)[:6], call_events(**end)[6:]
    shown = read_frames(encoder.feed(before))
    assert [frame["type"].rpartition("_")[2] for frame in shown[1:]] == ["start", "delta", "stop"]
    assert (shown[1]["content_block"], shown[2]["delta"]["partial_json"]) == ({**USE, "input": {}}, '{"a":2}')
    assert read_frames(encoder.feed(after))[0]["content_block"] == blocks[1]


def test_a_call_whose_arguments_never_ended_is_whole_at_its_end() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "server_label": "calc", "name": "add", "arguments": '{"a":2}'}
    encoder = MessagesEncoder(message_id="msg_1", model="m", thinking="none")
    frames = read_frames(encoder.feed([Started("r"), ItemStarted(0, item), ItemEnded(0, {**item, "output": "5"})]))
    starts = [frame["content_block"]["type"] for frame in frames if frame["type"] == "content_block_start"]
    assert starts == ["mcp_tool_use", "mcp_tool_result"]


def test_blocks_are_calls_of_the_history() -> None:
    def result(tool_use_id: str, **more: Any) -> Json:
        return {"type": "mcp_tool_result", "tool_use_id": tool_use_id, **more}

    content = [
        USE,
        result("mcp_1", content=[{"type": "text", "text": "5"}]),
        {**USE, "id": "mcp_2"},
        result("mcp_2", content="no", is_error=True),
        {**USE, "id": "mcp_3"},
        result("mcp_9"),
    ]
    history = [USER, {"role": "assistant", "content": content}, USER]
    validate(body(messages=history))
    turn = lift(body(messages=history))
    first, second, third = turn.items[1:-1]
    assert (first["type"], first["arguments"], first["output"]) == ("mcp_call", '{"a":2}', "5")
    assert (second["status"], second["error"]) == ("failed", "no")
    assert (third["status"], third["server_label"]) == ("incomplete", "calc")
    assert [str(loss) for loss in turn.losses] == ["messages=mcp_tool_result dropped"]
