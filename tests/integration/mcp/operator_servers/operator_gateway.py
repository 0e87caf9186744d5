"""MCP servers of the configuration, and requests that use them."""

import sys
from pathlib import Path
from typing import Any

from gateway.tools.mcp.operator_server import OperatorServer, OperatorServerSettings
from gateway.tools.mcp.server import McpServer
from providers.egress import EgressClient
from tests.integration.mcp.tool_gateway import Hosting
from tests.upstream import chat_calls, chat_text
from tests.upstream.builders import Json

CHILD = [sys.executable, str(Path(__file__).parents[3] / "mcp_child.py")]
ADD = chat_calls(("calc_add", '{"a": 2, "b": 3}'))
DONE = chat_text("Done.")


def names_sent(request: Json) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools") or ()]


def configured(**servers: Json) -> Json:
    return {"servers": {label: {"approval": "never", **server} for label, server in servers.items()}}


def using(*labels: str) -> Any:
    """The tools of a request that names servers by their labels alone."""
    return [{"type": "mcp", "server_label": label} for label in labels]


def model_with(*labels: str) -> Json:
    return {"m": {"provider": "up", "tools": {"mcp": [*labels]}}}


def operator_server(server: McpServer) -> OperatorServer:
    settings = OperatorServerSettings(
        server=server,
        allows=lambda name: True,
        repeats_calls=False,
        is_trusted=False,
        max_list_pages=4,
        max_tools=100,
        list_deadline_s=60,
        call_deadline_s=60,
        list_ttl_s=300,
    )
    return OperatorServer(settings, EgressClient(allow=["127.0.0.1"]))


async def listed_names(gateway: Hosting) -> set[str]:
    """The tools that the model gets in a new response."""
    await gateway.ask()
    return {*names_sent(await gateway.last_request())}
