"""Tokens for MCP servers of the configuration, by OAuth's client credentials."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import pytest
from openai import APIStatusError

from tests.integration.mcp.operator_servers.operator_gateway import configured, model_with, using
from tests.integration.mcp.tool_gateway import LOOK_UP, call_of, hosting, items_of
from tests.mcp_script import ScriptedMcp, answer, scripted_mcp, sse_frame, text_result
from tests.upstream import Hang, Reply, ScriptedUpstream, chat_calls, chat_text
from tests.upstream.builders import SSE, Json, json_reply
from tests.upstream.script import Exchange, Script

EXPIRED = Reply(401, headers={"www-authenticate": 'Bearer error="invalid_token"'})
CALLS = (chat_calls(LOOK_UP), chat_text("Done."))
SECRET = "the-secret-of-the-gateway"


def token(number: int, **more: Any) -> Script:
    return json_reply({"access_token": f"access-token-{number}", "token_type": "Bearer", "expires_in": 3600, **more})


@asynccontextmanager
async def issuing(*replies: Script) -> AsyncIterator[tuple[ScriptedUpstream, Json]]:
    """An authorization server, and the configuration of its tokens."""
    async with ScriptedUpstream() as server:
        server.on("/token", *replies)
        yield (
            server,
            {
                "oauth": {
                    "client_id": "gateway",
                    "client_secret": SECRET,
                    "token_url": f"{server.url}/token",
                    "scope": "read write",
                }
            },
        )


def tokens_sent(server: ScriptedMcp, method: str = "tools/call") -> list[str]:
    return [request.headers["authorization"] for request in server.received(method)]


async def test_a_token_that_expires_is_fetched_anew_once_and_the_call_is_made() -> None:
    async with (
        issuing(token(1), token(2)) as (issuer, auth),
        scripted_mcp([EXPIRED, answer(text_result("found"))]) as server,
        hosting(*CALLS, mcp=configured(lookup={"url": server.url, "auth": auth}), models=model_with("lookup")) as it,
    ):
        assert call_of(await it.ask())["output"] == "found"
        assert tokens_sent(server) == ["Bearer access-token-1", "Bearer access-token-2"]
        assert tokens_sent(server, "tools/list") == ["Bearer access-token-1"]
        form = parse_qs(issuer.requests[0].content.decode())
        assert form == {"grant_type": ["client_credentials"], "resource": [server.url], "scope": ["read write"]}
        pair = base64.b64decode(issuer.requests[0].headers["authorization"].removeprefix("Basic ")).decode()
        assert pair == f"gateway:{SECRET}"


async def test_a_new_token_that_is_not_accepted_is_named_and_the_tools_stay() -> None:
    refusal = Reply(401, body=b"access-token-2 is not for me")
    async with (
        issuing(token(1), token(2), token(3)) as (issuer, auth),
        scripted_mcp(refusal) as server,
        hosting(*CALLS, mcp=configured(lookup={"url": server.url, "auth": auth}), models=model_with("lookup")) as it,
    ):
        error = call_of(await it.ask())["error"]
        assert (error["type"], error["code"]) == ("http_error", 401)
        assert error["message"].startswith("authorization_expired")
        assert "[hidden] is not for me" in error["message"]
        assert len(server.calls) == 2
        assert items_of(await it.ask(tool_choice="none"), "mcp_list_tools")[0]["tools"]
        assert len(issuer.requests) == 2


QUOTE = "you sent access-token-1, then access-token-2"


@pytest.mark.parametrize(
    "reply",
    [
        answer(text_result(QUOTE)),
        answer(text_result(QUOTE, isError=True)),
        answer(text_result(QUOTE + "x" * 1024 * 1024)),
    ],
    ids=["result", "error of the tool", "beginning of a large result"],
)
async def test_a_token_that_was_fetched_or_replaced_during_a_call_is_not_in_its_result(reply: Script) -> None:
    async with (
        issuing(token(1), token(2)) as (_, auth),
        scripted_mcp([EXPIRED, reply]) as server,
        hosting(
            *CALLS,
            mcp={**configured(lookup={"url": server.url, "auth": auth}), "max_result_mb": 1},
            models=model_with("lookup"),
        ) as it,
    ):
        said = json.dumps([await it.ask(), await it.last_request()])
        assert said.count("you sent [hidden], then [hidden]") == 2
        assert "access-token" not in said
        assert tokens_sent(server) == ["Bearer access-token-1", "Bearer access-token-2"]


async def report_tokens(exchange: Exchange) -> None:
    token = exchange.request.json["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": 1, "message": QUOTE}
    note = sse_frame({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    await Reply(headers=SSE, body=[note, Hang()])(exchange)


async def test_a_token_that_was_fetched_or_replaced_during_a_call_is_not_in_its_progress() -> None:
    async with (
        issuing(token(1), token(2)) as (_, auth),
        scripted_mcp([EXPIRED, report_tokens]) as server,
        hosting(*CALLS, mcp=configured(lookup={"url": server.url, "auth": auth}), models=model_with("lookup")) as it,
    ):
        request: Json = {"model": "m", "input": "Hi", "stream": True, "extra_body": {"tool_events": True}}
        stream: Any = await it.client.responses.create(**request)
        async with asyncio.timeout(60), stream:
            async for event in stream:
                if event.type == "gateway.tool.progress":
                    break
        assert event.message == "you sent [hidden], then [hidden]"


async def test_an_authorization_server_that_refuses_is_named_without_the_secret() -> None:
    refusal = json_reply({"error": "invalid_client", "error_description": SECRET}, 401)
    async with (
        issuing(refusal) as (_, auth),
        scripted_mcp() as server,
        hosting(mcp=configured(lookup={"url": server.url, "auth": auth})) as it,
    ):
        with pytest.raises(
            APIStatusError, match=r"127\.0\.0\.1 answered with HTTP status 401: invalid_client"
        ) as failed:
            await it.ask(*using("lookup"))
        assert SECRET not in str(failed.value.body)
        assert server.upstream.requests == []


async def test_metadata_over_plain_http_is_not_used() -> None:
    auth = {"oauth": {"client_id": "gateway", "client_secret": SECRET}}
    async with scripted_mcp() as server, hosting(mcp=configured(lookup={"url": server.url, "auth": auth})) as it:
        with pytest.raises(APIStatusError, match=r"not https: write auth\.oauth\.token_url"):
            await it.ask(*using("lookup"))
        assert server.upstream.requests == []
