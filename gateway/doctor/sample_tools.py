"""An MCP server in this process with one tool without effects, for the check of tools that the gateway runs."""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from gateway.doctor.checks.hosted_probes import WEATHERS
from gateway.doctor.checks.tool_probes import WEATHER_TOOL

_START_S: Final = 10.0


@contextmanager
def serve_sample_tools() -> Iterator[str]:
    """Yields the URL of the server, which listens on this machine only and runs in a thread until the block ends."""
    import uvicorn  # imports the library of the server, which most commands do not need

    app = _build_server().streamable_http_app(json_response=True, stateless_http=True)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="tools", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(_START_S)


def _build_server() -> Any:
    from mcp.server.lowlevel import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
        TextContent,
        Tool,
        ToolAnnotations,
    )

    tool = Tool(
        name=str(WEATHER_TOOL["name"]),
        description=str(WEATHER_TOOL["description"]),
        input_schema=dict[str, Any](WEATHER_TOOL["parameters"]),  # type: ignore[call-overload]
        annotations=ToolAnnotations(read_only_hint=True),
    )

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[tool])

    async def call_tool(_: Any, __: CallToolRequestParams) -> CallToolResult:
        # The result differs with each call, so that a model that guesses mostly fails the check.
        return CallToolResult(content=[TextContent(type="text", text=random.choice(WEATHERS))])

    return Server("doctor", on_list_tools=list_tools, on_call_tool=call_tool)
