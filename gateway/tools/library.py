"""Loads the library that speaks MCP, which is large, when a process first calls a tool."""

import asyncio
from importlib import import_module
from typing import Final

_MODULES: Final = ("gateway.tools.loop_exchange", "gateway.mcp.operator_server")
"""The modules that import the library."""

_loaded: Final = asyncio.Event()


async def load_tool_library() -> None:
    """Imports what runs tools, in a thread, so that other requests go on meanwhile. Later calls return at once."""
    if _loaded.is_set():
        return
    for name in _MODULES:
        await asyncio.to_thread(import_module, name)
    _loaded.set()
