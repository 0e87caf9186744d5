"""Tokens of requests with tools that the gateway runs: those of the tools count as well."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import BadRequestError, NotFoundError

from tests.databases import ready_sqlite
from tests.integration.mcp.approval_gateway import answer, approving, request_of
from tests.integration.mcp.tool_gateway import Hosting, calc_tool, hosting
from tests.mcp_server import CountingServer
from tests.upstream import closed_port
from tests.upstream.builders import chat_json, json_reply

HELLO: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@asynccontextmanager
async def counting(url: str, *, approval: Any = "never", ways: str = "chat", **config: Any) -> AsyncIterator[Hosting]:
    """Serves the model `m` with the server `calc`, and `plain` without one. The upstream counts 42 tokens."""
    server = {"url": url, "approval": approval, "allow": ["add", "fail"]}
    plain = {"provider": "up", "capabilities": {"counting": ways}}
    models = {"m": {**plain, "tools": {"mcp": ["calc"]}}, "plain": plain}
    async with hosting(mcp={"servers": {"calc": server}}, models=models, **config) as gateway:
        gateway.model.on("/chat/completions/input_tokens", json_reply({"input_tokens": 42}))
        yield gateway


async def tools_counted(gateway: Hosting) -> list[str]:
    return [tool["function"]["name"] for tool in (await gateway.last_request()).get("tools") or ()]


async def count_messages(gateway: Hosting, **more: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
        return await client.post("/messages/count_tokens", json=HELLO | more)


async def count(gateway: Hosting, **more: Any) -> int:
    return (await gateway.client.responses.input_tokens.count(**{"model": "m", "input": "Hi", **more})).input_tokens


async def test_tools_of_the_model_count_in_every_api(calc: CountingServer) -> None:
    own = {"name": "ask", "input_schema": {"type": "object"}}
    async with counting(calc.url) as gateway:
        assert (await count_messages(gateway, tools=[own])).json() == {"input_tokens": 42}
        assert await tools_counted(gateway) == ["ask", "calc_add", "calc_fail"]
        assert await count(gateway) == 42
        assert await tools_counted(gateway) == ["calc_add", "calc_fail"]
        assert await count(gateway, model="plain") == 42
        assert await tools_counted(gateway) == []
    assert calc.runs == {}


async def test_tools_of_servers_in_the_request_count(calc: CountingServer) -> None:
    async with counting(calc.url) as gateway:
        assert await count(gateway, model="plain", tools=[calc_tool(calc, allowed_tools=["add"])]) == 42
        assert await tools_counted(gateway) == ["calc_add"]
    assert calc.runs == {}


async def test_tools_that_need_an_approval_count_where_one_can_be_given(calc: CountingServer, tmp_path: Path) -> None:
    store = {"url": ready_sqlite(tmp_path / "state.db")}
    async with counting(calc.url, approval={"never": {"tool_names": ["add"]}}, store=store) as gateway:
        await count(gateway)
        assert await tools_counted(gateway) == ["calc_add", "calc_fail"]
        await count_messages(gateway)
        assert await tools_counted(gateway) == ["calc_add"], "a message cannot ask for an approval"


async def test_an_upstream_that_cannot_count_is_reported_before_a_server_is_contacted(calc: CountingServer) -> None:
    calc.reset()
    async with counting(calc.url, ways="none") as gateway:
        with pytest.raises(BadRequestError, match="cannot count tokens"):
            await count(gateway, model="plain", tools=[calc_tool(calc)])
        assert (await count_messages(gateway)).status_code == 404
    assert calc.methods["tools/call"] == 0


async def test_a_server_that_cannot_be_listed_fails_the_count(calc: CountingServer) -> None:
    async with counting(calc.url) as gateway:
        with pytest.raises(Exception, match="Error retrieving tool list") as failed:
            await count(gateway, model="plain", tools=[calc_tool(calc, server_url=f"http://127.0.0.1:{closed_port()}")])
    assert not isinstance(failed.value, NotFoundError)


async def test_a_server_of_the_model_that_is_away_is_a_loss_of_the_count() -> None:
    async with counting(f"http://127.0.0.1:{closed_port()}/mcp") as gateway:
        counted = [await count_messages(gateway)]
        async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client:
            counted.append(await client.post("/responses/input_tokens", json={"model": "m", "input": "Hi"}))
            content: Any = {"contents": [{"parts": [{"text": "Hi"}]}]}
            counted += [
                await client.post("/models/m:countTokens", json=body)
                for body in (content, {"generateContentRequest": content})
            ]
        names = ("input_tokens", "input_tokens", "totalTokens", "totalTokens")
        for name, reply in zip(names, counted, strict=True):
            assert reply.json()[name] == 42
            assert reply.headers["x-gateway-loss"] == "tools=MCP server calc left out"
        assert await tools_counted(gateway) == []


async def test_an_input_that_approves_a_call_has_no_count_and_the_approval_can_still_be_used(
    calc: CountingServer, tmp_path: Path
) -> None:
    async with approving(calc, tmp_path) as gateway:
        response = await gateway.ask()
        given = [answer(request_of(response))]
        body = {"model": "m", "input": given, "previous_response_id": response["id"], "tools": [gateway.tool()]}
        counted = await gateway.raw.post("/responses/input_tokens", json=body)
        assert (counted.status_code, counted.json()["error"]["param"]) == (400, "input")
        assert "count without the approval" in counted.json()["error"]["message"]
        assert calc.runs["add"] == 0
        await gateway.ask(given, previous_response_id=response["id"])
        assert calc.runs["add"] == 1


async def test_keys_that_no_api_has_are_reported_or_refused(calc: CountingServer) -> None:
    user: Any = {"role": "user", "content": "Hi", "mood": 1}
    contents: Any = [{"parts": [{"text": "Hi"}]}]
    summary = chat_json("So far: nothing.")
    requests: dict[str, Any] = {
        "/responses/compact": {"model": "plain", "input": [{**user, "type": "message"}, user], "hologram": 1},
        "/responses/input_tokens": {"model": "plain", "input": [user], "hologram": 1},
        "/messages/count_tokens": {"model": "plain", "messages": [user], "hologram": 1},
        "/models/plain:countTokens": {"generateContentRequest": {"contents": contents, "hologram": 1}},
    }
    async with (
        counting(calc.url) as gateway,
        httpx.AsyncClient(base_url=gateway.url, trust_env=False, timeout=60) as client,
    ):
        gateway.model.on("/chat/completions", summary)
        for path, body in requests.items():
            reply = await client.post(path, json=body)
            assert reply.status_code == 200, (path, reply.text)
            losses = reply.headers["x-gateway-loss"]
            assert "hologram=dropped" in losses, path
            assert ("mood=dropped" in losses) == ("mood" in str(body)), (path, losses)
            strict = await client.post(path, json=body, headers={"x-gateway-strict": "true"})
            assert (strict.status_code, "hologram" in strict.text) == (400, True), (path, strict.text)
