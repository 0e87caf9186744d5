"""Credentials and addresses of MCP servers: what is sent, what is stored, and which servers are reachable."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import APIStatusError, BadRequestError

from gateway.tools.mcp.connection import McpConnection
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.server import McpServer
from providers.egress import EgressClient
from tests.agui_client import run_input, user
from tests.databases import ready_sqlite
from tests.integration.mcp.tool_gateway import LOOK_UP, call_of, error_text, hosting, items_of, mcp_tool
from tests.mcp_script import answer, rpc_error, scripted_mcp, text_result
from tests.mcp_server import mcp_server
from tests.serving import command
from tests.upstream import Reply, ScriptedUpstream, chat_calls, chat_text
from tests.upstream.builders import Json, json_reply
from tests.upstream.script import Script

TOKEN = "token-of-the-client-1234"
HEADER = "value-of-a-header-5678"
SECRETS: dict[str, Any] = {"authorization": TOKEN, "headers": {"X-Api-Key": HEADER}}


QUOTING: Sequence[Script] = [
    rpc_error(-32000, f"bad header: Bearer {TOKEN}, {HEADER}"),
    json_reply({"detail": f"x-api-key {HEADER}, authorization: Bearer {TOKEN}"}, 403),
    answer(text_result(f"you sent {TOKEN} and {HEADER}", isError=True)),
    answer(text_result(f"you sent {TOKEN} and {HEADER}")),
    Reply(500, {"content-type": "text/plain"}, f"{'x' * 440}{TOKEN} {HEADER}".encode()),
]
"""Calls whose answers quote credentials: in errors of each kind, in a result, and where a message is cut."""


async def test_a_credential_that_a_server_echoes_is_removed_everywhere(tmp_path: Path) -> None:
    async with scripted_mcp([*QUOTING, *QUOTING, *QUOTING]) as server, ScriptedUpstream() as model:
        model.on("/chat/completions", *[chat_calls(LOOK_UP), chat_text("Done.")] * 3 * len(QUOTING))
        config = {
            "egress": {"allow": ["127.0.0.1"]},
            "store": {"url": ready_sqlite(tmp_path / "state.db")},
            "log": {"level": "debug"},
            "providers": {"up": {"type": "openai_compatible", "base_url": model.url}},
            "models": {"m": {"provider": "up"}},
        }
        texts: list[str] = []
        with command(config, tmp_path, forked=True) as gateway:
            async with httpx.AsyncClient(headers={"authorization": "Bearer gateway-key-1"}, timeout=60) as client:
                body = {"model": "m", "input": "Hi", "tools": [mcp_tool(server.url, **SECRETS)]}
                for _ in QUOTING:
                    whole = await client.post(f"{gateway.v1}/responses", json=body)
                    assert items_of(whole.json(), "mcp_call")
                    stored = await client.get(f"{gateway.v1}/responses/{whole.json()['id']}")
                    texts += [whole.text, stored.text]
                for _ in QUOTING:
                    texts.append((await client.post(f"{gateway.v1}/responses", json={**body, "stream": True})).text)
                for number in range(len(QUOTING)):
                    run = run_input(user("Hi"), thread=f"t{number}", forwardedProps={"tools": body["tools"]})
                    texts.append((await client.post(f"{gateway.v1}/agui", json=run)).text)
        assert len(server.calls) == 3 * len(QUOTING)
        assert "".join(texts).count("[hidden]") > 3 * len(QUOTING)
        texts += [gateway.read_log(), _read_files(tmp_path, "state.db*"), *_contents(model)]
        for secret in (TOKEN, HEADER, TOKEN[:12], HEADER[:12]):
            assert not [text for text in texts if secret in text]
        sent = [request.headers for request in server.upstream.requests]
        assert {headers["authorization"] for headers in sent} == {f"Bearer {TOKEN}"}
        assert {headers["x-api-key"] for headers in sent} == {HEADER}
        assert "gateway-key-1" not in str(sent)


def _read_files(folder: Path, names: str) -> str:
    return "".join(file.read_bytes().decode("latin-1") for file in folder.glob(names))


def _contents(upstream: ScriptedUpstream) -> list[str]:
    return [request.content.decode() for request in upstream.requests]


async def test_a_credential_in_the_error_of_a_list_is_removed() -> None:
    async with scripted_mcp(methods={"tools/list": rpc_error(-32000, f"no: {TOKEN}")}) as server, hosting() as gateway:
        with pytest.raises(APIStatusError, match=r"no: \[hidden\]"):
            await gateway.ask(mcp_tool(server.url, **SECRETS))


async def test_without_credentials_the_clients_key_is_not_sent() -> None:
    async with scripted_mcp(answer(text_result("found"))) as server, hosting() as gateway:
        await gateway.ask(mcp_tool(server.url))
        for request in server.upstream.requests:
            assert "gateway-key-1" not in str(request.headers)
            assert "authorization" not in request.headers


@pytest.mark.parametrize(
    ("more", "param", "message"),
    [
        ({"headers": {"Host": "internal"}}, "headers", "the gateway sets it"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers", "the gateway sets it"),
        ({"headers": {"X-A": "b\r\nX-C: d"}}, "headers", "printable ASCII"),
        ({"headers": {"X A": "b"}}, "headers", "not the name of a header"),
        ({"authorization": "a\nb"}, "authorization", "printable ASCII"),
        ({"authorization": "one", "headers": {"Authorization": "two"}}, "authorization", "not in both"),
        ({"server_url": "file:///etc/passwd"}, "server_url", "http:// or https://"),
        ({"server_url": "http://user:pass@example.com/"}, "server_url", "user name or password"),
        ({"server_url": "http://example.com:99999/"}, "server_url", "valid URL"),
    ],
)
async def test_credentials_that_cannot_be_sent_are_refused_by_name(more: Json, param: str, message: str) -> None:
    async with hosting() as gateway:
        with pytest.raises(BadRequestError, match=message) as refused:
            await gateway.ask({**mcp_tool("http://127.0.0.1:9/mcp"), **more})
        assert refused.value.param == f"tools[0].{param}"
        assert "pass@" not in str(refused.value.body)


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:{port}/v1/mcp", "http://localhost:{port}/v1/mcp", "http://10.0.0.1/mcp", "http://[::1]:{port}/"],
)
async def test_a_private_address_is_refused_unless_the_operator_allows_it(url: str) -> None:
    async with scripted_mcp() as server, hosting(egress={"allow": []}) as gateway:
        with pytest.raises(APIStatusError, match="outside the public internet") as failed:
            await gateway.ask(mcp_tool(url.format(port=server.upstream.port)))
        assert failed.value.status_code == 424
        assert server.upstream.accepted == 0


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_to_another_origin_is_not_followed(status: int) -> None:
    async with scripted_mcp() as target:
        elsewhere = Reply(status, {"location": target.url})
        async with scripted_mcp(elsewhere) as server, hosting() as gateway:
            call = call_of(await gateway.ask(mcp_tool(server.url, **SECRETS)))
        assert error_text(call) == "egress_refused: the server redirects elsewhere, which is not followed"
        assert target.upstream.accepted == 0


async def test_a_redirect_at_list_time_is_not_followed() -> None:
    async with scripted_mcp() as target:
        elsewhere = Reply(307, {"location": target.url})
        methods = {"server/discover": elsewhere, "initialize": elsewhere}
        async with scripted_mcp(methods=methods) as server, hosting() as gateway:
            with pytest.raises(APIStatusError, match="redirects elsewhere"):
                await gateway.ask(mcp_tool(server.url, **SECRETS))
        assert target.upstream.accepted == 0


async def test_the_address_that_was_checked_is_connected_to() -> None:
    async with scripted_mcp() as server:
        requests: list[str] = []

        async def resolve(host: str, port: int) -> list[str]:
            requests.append(host)
            return ["127.0.0.1"]

        # No resolver of a system knows this name, so nothing but the address can have been connected to.
        url = f"http://tools.invalid:{server.upstream.port}/v1/mcp"
        egress = EgressClient(allow=["tools.invalid"], resolver=resolve)
        async with McpConnection(McpServer(label="lookup", url=url), egress) as connection:
            assert await connection.list_tools(max_pages=1, deadline_s=60)
        assert set(requests) == {"tools.invalid"}
        assert len(requests) == len(server.upstream.requests), "each request is checked"
        assert {request.headers["host"] for request in server.upstream.requests} == {
            f"tools.invalid:{server.upstream.port}"
        }


async def test_an_address_that_changes_to_a_private_one_is_refused() -> None:
    async with scripted_mcp() as server:
        addresses = iter([["127.0.0.1"], ["127.0.0.1"], ["10.0.0.1"]])
        egress = EgressClient(resolver=lambda host, port: _next_of(addresses))
        url = f"http://tools.invalid:{server.upstream.port}/v1/mcp"
        async with McpConnection(McpServer(label="lookup", url=url), egress) as connection:
            with pytest.raises(McpFault, match="outside the public internet"):
                await connection.list_tools(max_pages=1, deadline_s=60)
        assert server.upstream.accepted == 0


async def _next_of(addresses: Any) -> Any:
    return next(addresses)


async def test_a_host_with_a_dead_address_is_reached_by_its_next_one() -> None:
    async with scripted_mcp() as server:

        async def resolve(host: str, port: int) -> list[str]:
            return ["127.0.0.2", "127.0.0.1"]

        url = f"http://tools.invalid:{server.upstream.port}/v1/mcp"
        egress = EgressClient(allow=["tools.invalid"], resolver=resolve)
        async with McpConnection(McpServer(label="lookup", url=url), egress) as connection:
            assert await connection.list_tools(max_pages=1, deadline_s=60)


async def test_switched_off_the_tool_is_left_out_with_a_loss() -> None:
    async with scripted_mcp() as server, hosting(chat_text("Hi."), mcp={"request_servers": "off"}) as gateway:
        body = {"model": "m", "input": "Hi", "tools": [mcp_tool(server.url)]}
        async with httpx.AsyncClient(timeout=60) as client:
            reply = await client.post(f"{gateway.url}/responses", json=body)
        assert reply.status_code == 200
        assert items_of(reply.json(), "mcp_list_tools") == []
        assert reply.headers["x-gateway-loss"] == "tools[0]=mcp left out"
        assert "tools" not in await gateway.last_request()
        assert server.upstream.accepted == 0


@pytest.mark.parametrize("json_response", [False, True])
@pytest.mark.parametrize("stateless", [False, True])
async def test_real_servers_of_every_kind_are_served(json_response: bool, stateless: bool) -> None:
    with mcp_server(json_response=json_response, stateless=stateless) as server:
        model = [chat_calls(("lookup_add", '{"a": 2, "b": 3}'), ("lookup_fail", '{"reason": "no"}')), chat_text("5")]
        async with hosting(*model) as gateway:
            response = await gateway.ask(mcp_tool(server.url, headers={"X-Team": "blue"}, authorization=TOKEN))
        added, failed = items_of(response, "mcp_call")
        assert added["output"] == "5"
        assert error_text(failed) == "Error executing tool fail"
        assert (server.headers["x-team"], server.headers["authorization"]) == ("blue", f"Bearer {TOKEN}")
        assert json.dumps(response).count(TOKEN) == 0


async def test_a_server_that_only_knows_initialize_is_served() -> None:
    async with scripted_mcp(answer({"content": [{"type": "text", "text": "found"}]}), era="legacy") as server:
        async with hosting() as gateway:
            assert call_of(await gateway.ask(mcp_tool(server.url)))["output"] == "found"
        versions = {call.headers["mcp-protocol-version"] for call in server.calls}
        assert versions == {"2025-11-25"}
        assert {call.headers["mcp-session-id"] for call in server.calls} == {"session-1"}
