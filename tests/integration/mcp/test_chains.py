"""Hosted tools in later turns: stored responses, chains, WebSockets, and histories that clients store themselves."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import orjson
from websockets.asyncio.client import connect

from tests import databases
from tests.integration.mcp.tool_gateway import Hosting, calc_tool, hosting
from tests.mcp_server import CountingServer
from tests.upstream.builders import chat_calls, chat_text

ADD = ("calc_add", '{"a": 2, "b": 3}')


def stored(folder: Path, *scripts: Any) -> AbstractAsyncContextManager[Hosting]:
    return hosting(*scripts, store={"url": databases.ready_sqlite(folder / "state.db")})


async def test_a_chain_has_the_call_and_does_not_list_the_tools_again(calc: CountingServer, tmp_path: Path) -> None:
    async with stored(tmp_path, chat_calls(ADD), chat_text("5"), chat_text("Yes.")) as (client, upstream, _):
        first = await client.responses.create(
            model="m", input="2 + 3?", tools=[calc_tool(calc, authorization="secret")]
        )
        stored_response = await client.responses.retrieve(first.id)
        assert [item.to_dict() for item in stored_response.output] == [item.to_dict() for item in first.output]
        assert b"secret" not in (tmp_path / "state.db").read_bytes()
        listed = calc.methods["tools/list"]
        second = await client.responses.create(
            model="m", input="Sure?", previous_response_id=first.id, tools=[calc_tool(calc, authorization="secret")]
        )
        assert [item.type for item in second.output] == ["message"]
        assert calc.methods["tools/list"] == listed, "the list is in the context"
        messages = (await upstream.received(3)).json["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
        assert messages[1]["tool_calls"][0]["function"] == {"name": "calc_add", "arguments": '{"a": 2, "b": 3}'}
        assert messages[2]["content"] == "5"
    assert calc.runs["add"] == 1


async def test_a_history_stored_by_the_client_reads_the_same_for_the_model(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with stored(tmp_path, chat_calls(ADD), chat_text("5"), chat_text("Yes.")) as (client, upstream, _):
        first = await client.responses.create(model="m", input="2 + 3?", tools=[calc_tool(calc)], store=False)
        history: Any = [{"role": "user", "content": "2 + 3?"}, *(item.to_dict() for item in first.output)]
        second = await client.responses.create(
            model="m", input=[*history, {"role": "user", "content": "Sure?"}], tools=[calc_tool(calc)], store=False
        )
        assert second.output_text == "Yes."
        assert [item.type for item in second.output] == ["message"]
        messages = (await upstream.received(3)).json["messages"]
        assert messages[2]["content"] == "5"
    assert calc.runs["add"] == 1


async def test_a_turn_on_a_websocket_runs_tools(calc: CountingServer, tmp_path: Path) -> None:
    async with stored(tmp_path, chat_calls(ADD), chat_text("5")) as (_, _, url):
        async with connect(f"{url.replace('http', 'ws', 1)}/responses") as socket:
            request = {"type": "response.create", "model": "m", "input": "2 + 3?", "tools": [calc_tool(calc)]}
            await socket.send(orjson.dumps(request).decode())
            types: list[str] = []
            while not types or types[-1] != "response.completed":
                event = orjson.loads(await socket.recv())
                types.append(event["type"])
                assert event["type"] != "error", event
        assert "response.mcp_call.completed" in types
        assert [item["type"] for item in event["response"]["output"]] == ["mcp_list_tools", "mcp_call", "message"]
    assert calc.runs["add"] == 1
