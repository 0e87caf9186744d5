"""A gateway with a store before a model that calls `add`, and requests whose calls need approvals."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from openai import AsyncOpenAI

from tests.databases import ready_sqlite
from tests.mcp_server import CountingServer
from tests.serving import Gateway, serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import Json, chat_calls, chat_text
from tests.upstream.script import Exchange

ADD = ("calc_add", '{"a": 2, "b": 3}')


async def call_once(exchange: Exchange) -> None:
    """Calls `add` after a user message, and then replies with its output."""
    last = exchange.request.json["messages"][-1]
    await (chat_calls(ADD) if last["role"] == "user" else chat_text(f"Read: {last['content']}"))(exchange)


class Approving(NamedTuple):
    """`client` parses strictly. `raw` returns errors as they are sent."""

    client: AsyncOpenAI
    raw: httpx.AsyncClient
    model: ScriptedUpstream
    gateway: Gateway
    calc: CountingServer

    def tool(self, **more: Any) -> Any:
        """The tool `mcp` as clients send it, whose calls need an approval."""
        return {"type": "mcp", "server_label": "calc", "server_url": self.calc.url, **more}

    async def ask(self, request_input: Any = "2 + 3?", **more: Any) -> Json:
        body = {"model": "m", "input": request_input, "tools": [self.tool()], **more}
        response: Json = (await self.client.responses.create(**body)).model_dump(mode="json", exclude_none=True)
        assert response["status"] == "completed"
        return response

    async def refuse(self, request_input: Any, **more: Any) -> tuple[int, str | None, str | None]:
        """The status, code and parameter of a request that is refused."""
        answer = await self.send(request_input, **more)
        error = answer.json()["error"]
        return answer.status_code, error["code"], error["param"]

    async def send(self, request_input: Any, **more: Any) -> httpx.Response:
        body = {"model": "m", "input": request_input, "tools": [self.tool()], **more}
        return await self.raw.post("/responses", json=body)

    async def last_messages(self) -> list[Json]:
        """The messages that the model was sent last."""
        messages: list[Json] = self.model.requests[-1].json["messages"]
        return messages


def request_of(response: Json) -> Json:
    """The only request for an approval of a response, with which it ends."""
    (item,) = [item for item in response["output"] if item["type"] == "mcp_approval_request"]
    assert response["output"][-1] is item
    return dict(item)


def answer(request: Json, *, approve: bool = True, **more: Any) -> Json:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve, **more}


def kinds_of(response: Json) -> list[str]:
    return [item["type"] for item in response["output"]]


@asynccontextmanager
async def approving(
    calc: CountingServer, folder: Path, *scripts: Any, key: str = "key-of-ann", mcp: Any = None, **sections: Any
) -> AsyncIterator[Approving]:
    """Serves the model `m`, which calls once unless there are other scripts, to two owners."""
    calc.runs.clear()
    calc.methods.clear()
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", *(scripts or [call_once]))
        config = {
            "store": {"url": ready_sqlite(folder / "state.db")},
            "auth": {"keys": [{"name": "ann", "key": "key-of-ann"}, {"name": "bob", "key": "key-of-bob"}]},
            "egress": {"allow": ["127.0.0.1"]},
            "tools": {"mcp": mcp or {}},
            "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url, "retries": 0}},
            "models": {"m": {"provider": "up"}},
            **sections,
        }
        headers = {"authorization": f"Bearer {key}"}
        with serving(config) as gateway:
            async with (
                AsyncOpenAI(
                    base_url=gateway.v1, api_key=key, max_retries=0, _strict_response_validation=True
                ) as client,
                httpx.AsyncClient(base_url=gateway.v1, headers=headers, timeout=60) as raw,
            ):
                yield Approving(client, raw, upstream, gateway, calc)
