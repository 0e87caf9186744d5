"""Responses whose tools the gateway runs, on a real MCP server: one reply of several rounds."""

import pytest
from openai import APIStatusError

from tests.integration.mcp.tool_gateway import calc_tool, hosting, items_of, mcp_tool
from tests.mcp_server import CountingServer
from tests.upstream import closed_port
from tests.upstream.builders import chat_calls, chat_text

ADD = ("calc_add", '{"a": 2, "b": 3}')


async def test_a_tool_is_run_and_the_model_answers_with_its_result(calc: CountingServer) -> None:
    async with hosting(chat_calls(ADD), chat_text("It is ", "5.")) as (client, upstream, _):
        response = await client.responses.create(model="m", input="2 + 3?", tools=[calc_tool(calc)])
        assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
        listed, call, _ = response.output
        assert listed.type == "mcp_list_tools"
        assert listed.tools[0].name == "add"
        assert listed.tools[0].annotations == {"read_only": True}
        assert call.type == "mcp_call"
        assert (call.name, call.server_label, call.output, call.error, call.status) == (
            "add",
            "calc",
            "5",
            None,
            "completed",
        )
        assert response.output_text == "It is 5."
        assert response.usage is not None
        assert response.usage.output_tokens == 6, "the usage is that of both rounds"
        second = (await upstream.received(2)).json
        assert second["messages"][-1]["content"] == "5"
        assert second["messages"][-2]["tool_calls"][0]["function"]["name"] == "calc_add"
    assert calc.runs["add"] == 1


NOT_ALLOWED = {
    "none": "none",
    "another tool": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "own"}]},
    "another tool of the server": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "mcp", "server_label": "calc", "name": "fail"}],
    },
}


@pytest.mark.parametrize("choice", NOT_ALLOWED)
async def test_a_call_that_the_choice_of_the_client_does_not_allow_is_not_run(
    calc: CountingServer, choice: str
) -> None:
    own = {"type": "function", "name": "own", "parameters": {"type": "object", "properties": {}}}
    async with hosting(chat_calls(ADD), chat_text("I may not.")) as gateway:
        response = await gateway.ask(calc_tool(calc), own, tool_choice=NOT_ALLOWED[choice])
        read = (await gateway.last_request())["messages"][-1]["content"]
    assert read == "Tool call skipped: the tool_choice of the request does not allow it"
    [call] = items_of(response, "mcp_call")
    assert call["status"] == "failed"
    assert call["error"]["content"][0]["text"] == read
    assert response["output"][-1]["content"][0]["text"] == "I may not."
    assert calc.runs["add"] == 0


async def test_the_model_reads_the_servers_description_of_the_request(calc: CountingServer) -> None:
    async with hosting(chat_text("Hi.")) as (client, upstream, _):
        tool = calc_tool(calc, server_description="Counts the apples of the farm.")
        response = await client.responses.create(model="m", input="Hi", instructions="Be short.", tools=[tool])
        system = (await upstream.received(1)).json["messages"][0]
        assert system["content"] == "Be short.\n\nThe tools of the server 'calc': Counts the apples of the farm."
        assert response.instructions == "Be short."


async def test_the_stream_has_the_events_of_the_api_in_its_order(calc: CountingServer) -> None:
    async with hosting(chat_calls(ADD), chat_text("5")) as (client, _, _):
        stream = await client.responses.create(model="m", input="2 + 3?", tools=[calc_tool(calc)], stream=True)
        events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type.removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


async def test_a_server_that_cannot_be_reached_fails_the_request_by_name() -> None:
    async with hosting(chat_text("never")) as (client, _, _):
        dead = mcp_tool(f"http://127.0.0.1:{closed_port()}/mcp", "dead")
        with pytest.raises(APIStatusError, match="MCP server: 'dead'") as failed:
            await client.responses.create(model="m", input="Hi", tools=[dead])
        assert (failed.value.status_code, failed.value.type) == (424, "external_connector_error")
