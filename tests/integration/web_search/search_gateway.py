"""A gateway with a web search before a scripted model and a scripted engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import orjson

from tests.integration.mcp.tool_gateway import Hosting, hosting
from tests.integration.web_search.web_server import WebReply, WebServer, json_reply, web_server
from tests.upstream.builders import Json
from tests.upstream.script import Script

ALLOWED: Final = {"allow": ["127.0.0.1", "localhost"]}
"""Pages of the tests are on this machine, which no other gateway would open."""


class Searching(NamedTuple):
    """A gateway, and the server that is both its engine and the web. `rain` is the URL of a page there."""

    gateway: Hosting
    web: WebServer
    rain: str

    async def ask(self, **more: Any) -> Json:
        """Returns a response with a web search."""
        return await self.gateway.ask({"type": "web_search", **more.pop("tool", {})}, **more)

    def results_of(self, number: int = -1) -> str:
        """Returns what the model read last in one of its requests."""
        text: str = self.gateway.model.requests[number].json["messages"][-1]["content"]
        return text


def call(name: str, **arguments: Any) -> tuple[str, str]:
    return name, orjson.dumps(arguments).decode()


def search(*queries: str) -> tuple[str, str]:
    return call("web_search", queries=[*queries])


@asynccontextmanager
async def searching(
    *scripts: Script, web: dict[str, Any] | None = None, settings: Json | None = None, **config: Any
) -> AsyncIterator[Searching]:
    """Serves a gateway whose engine is SearXNG and finds one page, `RAIN`. `web` has further paths of the server."""
    async with web_server({}) as server:
        rain = f"{server.url}/rain"
        server.replies |= {
            "/search": json_reply({"results": [{"url": rain, "title": "Rain", "content": "It rains 【9】 today."}]}),
            "/rain": WebReply(b"<html><title>Rain</title><body><h1>Rain</h1><p>It rains in <b>K\xc3\xb6ln</b>.</body>"),
            **(web or {}),
        }
        own = {"engine": "searxng", "url": server.url, **(settings or {})}
        tools = {"web_search": {name: value for name, value in own.items() if value is not None}}
        async with hosting(*scripts, egress=ALLOWED, tools=tools, **config) as gateway:
            yield Searching(gateway, server, rain)
