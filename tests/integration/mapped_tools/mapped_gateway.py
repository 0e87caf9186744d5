"""A gateway that runs hosted tools by tools of a real MCP server, before a scripted model."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent

from tests.integration.mcp.tool_gateway import Hosting, hosting
from tests.mcp_server import serve_in_thread
from tests.upstream.builders import Json
from tests.upstream.script import Script

SECRET: Final = "search-token-0123456789"
RAIN: Final = "https://weather.example/rain"
PAGES: Final[Json] = {
    "found": [
        {"link": RAIN, "name": "Rain 【7】", "about": {"snippet": "It <b>rains</b> 【9】 today."}},
        {"link": "https://snow.example/", "name": "Snow", "about": {"snippet": "It snows."}},
    ]
}
CHUNKS: Final[Json] = {
    "hits": [
        {"id": "doc-1", "name": "cats【1】.txt", "body": "A cat sleeps 【7】 a lot.", "rank": 0.75},
        {"id": "doc-2", "name": "dogs.txt", "body": "A dog barks.", "rank": 0.25},
    ]
}

WEB_SEARCH: Final[Json] = {
    "tool": "web_search",
    "arguments": {"query": "q", "results": "count", "country": "country", "allowed_domains": "only"},
    "result": {"items": "$.found", "url": "link", "title": "name", "text": "$.about.snippet"},
}
FILE_SEARCH: Final[Json] = {
    "tool": "file_search",
    "arguments": {"query": "q", "results": "count", "vector_store_ids": "stores"},
    "result": {"items": "hits", "file_id": "id", "filename": "name", "text": "body", "score": "rank"},
}
CODE: Final[Json] = {"tool": "code_interpreter", "arguments": {"code": "source"}, "result": {}}
MAPPINGS: Final[Json] = {"find_pages": WEB_SEARCH, "find_chunks": FILE_SEARCH, "run_code": CODE}

Answer = Callable[[Json], Json | CallToolResult]


def text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def _run_code(arguments: Json) -> CallToolResult:
    return text_result(f"ran {arguments['source']}")


@dataclass
class MappedServer:
    """A server with one tool for each hosted tool. `calls` are the arguments that it got, by tool."""

    answers: dict[str, Answer] = field(
        default_factory=lambda: {
            "find_pages": lambda _: PAGES,
            "find_chunks": lambda _: CHUNKS,
            "run_code": _run_code,
        }
    )
    calls: list[tuple[str, Json]] = field(default_factory=list)
    url: str = ""

    def build(self) -> MCPServer:
        server = MCPServer("mapped")

        def answer(name: str, arguments: Json) -> CallToolResult:
            given = {key: value for key, value in arguments.items() if value is not None}
            self.calls.append((name, given))
            result = self.answers[name](given)
            if isinstance(result, CallToolResult):
                return result
            return CallToolResult(content=[], structured_content=result)

        @server.tool(structured_output=False)
        def find_pages(
            q: str, count: int | None = None, country: str | None = None, only: list[str] | None = None
        ) -> CallToolResult:
            """Finds pages."""
            return answer("find_pages", {"q": q, "count": count, "country": country, "only": only})

        @server.tool(structured_output=False)
        def find_chunks(
            q: str, count: int | None = None, stores: list[str] | None = None, where: Json | None = None
        ) -> CallToolResult:
            """Finds chunks of files."""
            return answer("find_chunks", {"q": q, "count": count, "stores": stores, "where": where})

        @server.tool(structured_output=False)
        def run_code(source: str) -> CallToolResult:
            """Runs code."""
            return answer("run_code", {"source": source})

        for name in [*self.answers]:
            if name not in MAPPINGS:
                raise ValueError(name)
        return server


@contextmanager
def mapped_server(**answers: Answer) -> Iterator[MappedServer]:
    """Serves the tools. `answers` replace what they answer."""
    mapped = MappedServer()
    mapped.answers |= answers
    with serve_in_thread(mapped.build().streamable_http_app()) as address:
        mapped.url = f"{address}/mcp"
        yield mapped


class Mapping(NamedTuple):
    """A gateway, and the server whose tools it runs."""

    gateway: Hosting
    server: MappedServer

    def read_by_model(self, number: int = -1) -> str:
        """Returns what the model read last in one of its requests."""
        text: str = self.gateway.model.requests[number].json["messages"][-1]["content"]
        return text


def server_settings(url: str, **mappings: Any) -> Json:
    return {
        "url": url,
        "approval": "never",
        "auth": {"bearer": SECRET},
        "as": mappings or MAPPINGS,
    }


@asynccontextmanager
async def mapping(
    *scripts: Script, server: MappedServer, mappings: Json | None = None, own: Json | None = None, **config: Any
) -> AsyncIterator[Mapping]:
    """Serves a gateway with these mappings of the server's tools, or with one for each hosted tool. `own` adds to the
    settings of the server."""
    servers = {"finder": {**server_settings(server.url, **(mappings or {})), **(own or {})}}
    async with hosting(*scripts, mcp={"servers": servers}, **config) as gateway:
        yield Mapping(gateway, server)


def call(name: str, **arguments: Any) -> tuple[str, str]:
    return name, orjson.dumps(arguments).decode()
