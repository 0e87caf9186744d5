"""An MCP server with many tools, of which one sends invoices."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from mcp.server import MCPServer

from tests.serving import READY_S

_THINGS: Final = ("ticket", "contact", "meeting", "report", "budget", "camera", "sensor", "ledger", "parcel", "recipe")
_ACTIONS: Final = ("create", "delete", "list", "rename", "archive", "export", "import", "compare")


@contextmanager
def many_tools_server(count: int) -> Iterator[str]:
    """Serves `count` tools in a thread. Yields the URL."""
    built = MCPServer("many")

    @built.tool(description="Sends an invoice to a customer by mail.")
    def send_invoice(customer: str) -> str:
        return f"sent to {customer}"

    for number in range(count - 1):
        action, thing = _ACTIONS[number % len(_ACTIONS)], _THINGS[number // len(_ACTIONS) % len(_THINGS)]

        def run(name: str, folder: str, limit: int) -> str:
            return name

        built.add_tool(
            run,
            name=f"{action}_{thing}_{number}",
            description=f"This tool can {action} a {thing} of department {number}.",
        )
    listener = socket.create_server(("127.0.0.1", 0))
    app = built.streamable_http_app(stateless_http=True)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(READY_S)
        listener.close()
