"""A real MCP server on a socket, whose tools count how often they run."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ImageContent, ToolAnnotations
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

READY_S = 60.0
_DISCOVER = "server/discover"
SKIES = {"Paris": "sunny, 21 C", "Rome": "rainy, 9 C"}
"""The weather in the known cities."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class TableSize(BaseModel):
    people: int = Field(ge=1, le=12)


class CountingServer:
    """`runs` counts the calls of each tool, `cancelled` those that were, `methods` the requests of each kind; `headers`
    are those of the last request."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.headers: dict[str, str] = {}
        self.methods: Counter[str] = Counter()
        self.url = ""

    def reset(self) -> None:
        """Begins all counts anew."""
        for counter in (self.runs, self.cancelled, self.methods):
            counter.clear()

    def build(self) -> MCPServer:
        server = MCPServer("counting")

        @server.tool(annotations=ToolAnnotations(read_only_hint=True))
        def add(a: int, b: int) -> str:
            """Adds two numbers."""
            self.runs["add"] += 1
            return str(a + b)

        @server.tool()
        def fail(reason: str) -> str:
            """Fails."""
            self.runs["fail"] += 1
            raise ValueError(reason)

        @server.tool()
        async def hang(context: Context[Any]) -> str:
            """Reports progress, and never ends."""
            self.runs["hang"] += 1
            await context.report_progress(1, 4, "began")
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                self.cancelled["hang"] += 1
                raise
            return ""

        @server.tool()
        def long(size: int) -> str:
            """Returns a long text."""
            self.runs["long"] += 1
            return "x" * size

        @server.tool()
        def weather(city: str) -> str:
            """Get the weather in a city"""
            self.runs["weather"] += 1
            return SKIES.get(city, "unknown")

        async def size_of(ctx: Context) -> Elicit[TableSize]:
            self.runs["asked"] += 1
            return Elicit("For how many people?", TableSize)

        @server.tool()
        async def book(city: str, size: Annotated[ElicitationResult[TableSize], Resolve(size_of)]) -> str:
            """Books a table. It requests the number of people from the user."""
            self.runs["book"] += 1
            if not isinstance(size, AcceptedElicitation):
                return f"No table in {city}: {size.action}."
            return f"A table for {size.data.people} in {city}."

        @server.tool()
        async def greet(city: str, ctx: Context) -> str:
            """Asks for how many people while its call is open, as servers of older revisions do."""
            size = await ctx.elicit("For how many people?", TableSize)
            return f"Hello in {city}: {size.action}."

        @server.tool(structured_output=False)
        def picture() -> ImageContent:
            """Returns a picture."""
            self.runs["picture"] += 1
            return ImageContent(type="image", data=PIXEL, mime_type="image/png")

        return server

    def watch(self, app: ASGIApp, *, is_older: bool = False) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.methods[method := self.headers.get("mcp-method", "")] += 1
                if is_older and method == _DISCOVER:
                    await JSONResponse({"detail": "Not Found"}, 404)(scope, receive, send)
                    return
            await app(scope, receive, send)

        return watched


@contextmanager
def mcp_server(
    *, json_response: bool = False, stateless: bool = False, sse: bool = False, is_older: bool = False
) -> Iterator[CountingServer]:
    """Serves the tools over streamable HTTP, or over the older HTTP+SSE, in a thread. A server that `is_older` only
    has the revisions with a handshake."""
    counting = CountingServer()
    built = counting.build()
    app = built.sse_app() if sse else built.streamable_http_app(json_response=json_response, stateless_http=stateless)
    with serve_in_thread(counting.watch(app, is_older=is_older)) as address:
        counting.url = f"{address}/{'sse' if sse else 'mcp'}"
        yield counting


@contextmanager
def serve_in_thread(app: ASGIApp) -> Iterator[str]:
    """Serves an application in a thread, and yields its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(READY_S)
        listener.close()
