"""Keys that may use some of the operator's MCP servers: for them, other servers do not exist."""

from typing import Any

import httpx
import pytest
from openai import APIStatusError, BadRequestError

from tests.integration.mcp.operator_servers.operator_gateway import configured, model_with, names_sent, using
from tests.integration.mcp.tool_gateway import Hosting, hosting, items_of
from tests.mcp_server import CountingServer
from tests.upstream import chat_text
from tests.upstream.builders import Json

LIMITED = "limited-key-0123456789"
KEYS = [
    {"name": "all", "key": "gateway-key-1"},
    {"name": "limited", "key": LIMITED, "mcp_servers": ["open*"]},
]


def config(calc: CountingServer) -> Json:
    """The model adds two servers, of which the second key may use one."""
    server = {"url": calc.url, "allow": ["add"]}
    return {
        "mcp": configured(open_calc=server, secret=server),
        "models": model_with("open_calc", "secret"),
        "auth": {"keys": KEYS},
        "egress": {},
    }


def limited(gateway: Hosting) -> Hosting:
    return gateway._replace(client=gateway.client.with_options(api_key=LIMITED))


async def test_a_server_that_a_key_may_not_use_is_exactly_like_an_unknown_one(calc: CountingServer) -> None:
    async with hosting(chat_text("Hi."), **config(calc)) as gateway:
        texts = []
        for label in ("secret", "nowhere"):
            with pytest.raises(BadRequestError) as refused:
                await limited(gateway).ask(*using(label))
            assert (refused.value.param, refused.value.code) == ("tools[0].server_label", "unknown_server_label")
            texts.append(str(refused.value.body).replace(label, "LABEL"))
        assert texts[0] == texts[1]
        assert gateway.model.requests == []
        await gateway.ask(*using("secret"))
        assert "secret_add" in names_sent(await gateway.last_request())


async def test_servers_of_a_model_are_added_only_for_keys_that_may_use_them(
    calc: CountingServer,
) -> None:
    async with hosting(chat_text("Hi."), **config(calc)) as gateway:
        other = limited(gateway)

        async def send(path: str, body: Json) -> None:
            async with httpx.AsyncClient(
                headers={"authorization": f"Bearer {LIMITED}"}, trust_env=False, timeout=60
            ) as client:
                (await client.post(f"{gateway.url}/{path}", json=body)).raise_for_status()

        response = await other.ask()
        assert [item["server_label"] for item in items_of(response, "mcp_list_tools")] == ["open_calc"]
        assert names_sent(await gateway.last_request()) == ["open_calc_add"]

        question: Any = [{"role": "user", "content": "2 + 3?"}]
        await other.client.chat.completions.create(model="m", messages=question)
        assert names_sent(await gateway.last_request()) == ["open_calc_add"]

        run = {"threadId": "t", "runId": "r", "messages": [{"id": "1", **question[0]}]}
        await send("agui/m", run)
        assert names_sent(await gateway.last_request()) == ["open_calc_add"]

        await send("messages", {"model": "m", "max_tokens": 99, "messages": question})
        assert names_sent(await gateway.last_request()) == ["open_calc_add"]

        await gateway.ask()
        assert names_sent(await gateway.last_request()) == ["open_calc_add", "secret_add"]


async def test_an_error_of_a_server_names_no_other_that_a_key_may_not_know(calc: CountingServer) -> None:
    """Names of tools can only be compared once they are listed."""
    servers = configured(open_it={"url": calc.url, "prefix": ""}, secret={"url": calc.url, "prefix": ""})
    async with hosting(chat_text("Hi."), **{**config(calc), "mcp": servers, "models": model_with("secret")}) as gateway:
        await gateway.ask()
        with pytest.raises(APIStatusError, match="like a tool of another server") as failed:
            await limited(gateway).ask(*using("open_it"))
        assert failed.value.status_code == 424
        assert "secret" not in str(failed.value.body)


async def test_a_key_that_may_use_no_server_gets_an_answer_without_tools(calc: CountingServer) -> None:
    models = model_with("secret")
    async with hosting(chat_text("Hi."), **{**config(calc), "models": models}) as gateway:
        response = await limited(gateway).ask()
        assert [item["type"] for item in response["output"]] == ["message"]
        assert names_sent(await gateway.last_request()) == []


async def test_the_list_of_servers_has_those_of_the_key(calc: CountingServer) -> None:
    async with hosting(**config(calc)) as gateway, httpx.AsyncClient(trust_env=False, timeout=60) as client:

        async def labels(key: str) -> list[str]:
            reply = await client.get(f"{gateway.url}/gateway/mcp-servers", headers={"x-api-key": key})
            return [each["server_label"] for each in reply.json()["data"]]

        assert await labels("gateway-key-1") == ["open_calc", "secret"]
        assert await labels(LIMITED) == ["open_calc"]
