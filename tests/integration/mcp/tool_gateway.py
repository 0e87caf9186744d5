"""A gateway that runs tools, before a scripted model, and what tests look for in its replies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from openai import AsyncOpenAI

from gateway.tools.mcp import guarded_http
from tests.mcp_server import CountingServer
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import Json, chat_calls, chat_text
from tests.upstream.script import Script

LOOK_UP = ("lookup_look_up", "{}")
"""A call of the scripted server's tool, under the name by which the model knows it."""


class Hosting(NamedTuple):
    client: AsyncOpenAI
    model: ScriptedUpstream
    url: str

    async def ask(self, *tools: Any, **more: Any) -> Json:
        response = await self.client.responses.create(**{"model": "m", "input": "Hi", "tools": [*tools], **more})
        return response.model_dump(mode="json")

    async def last_request(self) -> Json:
        """Returns the last request to the model."""
        found: Json = self.model.requests[-1].json
        return found


@asynccontextmanager
async def hosting(
    *scripts: Script, mcp: Any = None, provider: Json | None = None, **config: Any
) -> AsyncIterator[Hosting]:
    """Serves the model `m`. By default it calls the tool `look_up` and then replies `Done.`.

    `provider` adds to the settings of its provider.
    """
    with pytest.MonkeyPatch.context() as patch:
        # The end of a call or a session has more time to be told than usual: on a busy machine it would be dropped.
        patch.setattr(guarded_http, "_NOTICE_S", 20.0)
        async with _serving_here(scripts, mcp, provider, config) as gateway:
            yield gateway


@asynccontextmanager
async def _serving_here(
    scripts: tuple[Script, ...], mcp: Any, provider: Json | None, config: Json
) -> AsyncIterator[Hosting]:
    async with ScriptedUpstream() as upstream:
        path = "/completion" if (provider or {}).get("type") == "harmony" else "/chat/completions"
        upstream.on(path, *(scripts or (chat_calls(LOOK_UP), chat_text("Done."))))
        whole = {
            "egress": {"allow": ["127.0.0.1"]},
            "tools": {"mcp": mcp or {}},
            "providers": {"up": {"type": "openai_compatible", "base_url": upstream.url, **(provider or {})}},
            "models": {"m": {"provider": "up"}},
            **config,
        }
        running = serving(whole)
        server = running.__enter__()
        try:
            async with AsyncOpenAI(base_url=server.v1, api_key="gateway-key-1", max_retries=0) as client:
                yield Hosting(client, upstream, server.v1)
        finally:
            # In a thread: while it stops it still talks to servers of this event loop.
            await asyncio.to_thread(running.__exit__, None, None, None)


def mcp_tool(url: str, label: str = "lookup", **more: Any) -> Any:
    return {"type": "mcp", "server_label": label, "server_url": url, "require_approval": "never", **more}


def calc_tool(calc: CountingServer, **more: Any) -> Any:
    return mcp_tool(calc.url, "calc", **more)


def items_of(response: Json, kind: str) -> list[Json]:
    return [item for item in response["output"] if item["type"] == kind]


def call_of(response: Json) -> Json:
    """The only `mcp_call` of a response, which ended as it should although the call failed."""
    (call,) = items_of(response, "mcp_call")
    assert response["status"] == "completed"
    assert items_of(response, "message"), "the loop goes on after a call"
    return call


def error_text(call: Json) -> str:
    """The text of a call that failed, with the tool's error as the reason."""
    assert (call["status"], call["output"]) == ("failed", None)
    assert call["error"]["type"] == "mcp_tool_execution_error"
    return "\n".join(part["text"] for part in call["error"]["content"])
