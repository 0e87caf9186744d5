"""An MCP server on standard input and output, for tests: `python tests/mcp_child.py`."""

import os
import signal
import subprocess
import sys
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations

server = MCPServer("child")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def pid() -> str:
    """Returns the id of the process."""
    return str(os.getpid())


@server.tool()
def environment() -> str:
    """Returns the names of the variables that the process has."""
    return " ".join(sorted(os.environ))


@server.tool()
def die() -> str:
    """Ends the process in the middle of the call."""
    sys.stderr.write("x" * 1_000_000 + "the last words")
    sys.stderr.flush()
    os._exit(1)


@server.tool()
def fork() -> str:
    """Starts a process that holds the pipes and ignores SIGTERM, and returns its id."""
    # It ends on its own if a test that fails leaves it behind.
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    return str(subprocess.Popen([sys.executable, "-c", program]).pid)


@server.tool()
def long(size: int) -> str:
    """Returns a long text."""
    return "x" * size


@server.tool()
async def hang(context: Context[Any]) -> str:
    """Reports progress, and never ends."""
    await context.report_progress(1, 4, "began")
    await anyio.sleep_forever()
    return ""


@server.tool()
async def grow(context: Context[Any]) -> str:
    """Adds a tool, and notifies the client."""
    server.add_tool(lambda: "new", name="grown", description="Was added later.")
    await context.notify_tools_changed()
    return "grown"


if "--stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
server.run()
