"""The MCP server of the benchmark. It writes prebuilt results from a bare asyncio protocol, to be cheap."""

import asyncio
from typing import Any, Final, cast

import orjson
import uvloop

from bench.load.requests import build_function_tool
from bench.servers.processes import announce

MCP_LABEL: Final = "bench"
TOOL_COUNT: Final = 12

_COMPLETE: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def build_tool_list() -> list[dict[str, Any]]:
    """Returns the tools that the benchmark declares as functions, in the form of an `mcp_list_tools` item."""
    functions = [build_function_tool(number, nested=False) for number in range(TOOL_COUNT)]
    return [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
        for tool in functions
    ]


_RESULTS: Final[dict[str, Any]] = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **_COMPLETE},
    "tools/list": {
        "tools": [
            {"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]}
            for tool in build_tool_list()
        ],
        **_COMPLETE,
    },
    "tools/call": {"content": [{"type": "text", "text": "done"}], "resultType": "complete"},
}


class McpServerConnection(asyncio.Protocol):
    """One connection. Reads requests with a Content-Length, and answers each at once."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transport class is not a subclass

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"\r\ncontent-length:")
        if not end or len(rest) < int(length.split(b"\r\n", 1)[0] or 0):
            return
        self._buffer = b""
        message = orjson.loads(rest)
        body = orjson.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": _RESULTS.get(message["method"], {})})
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(McpServerConnection, "127.0.0.1", 0)
    announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
