"""Serves the notes over standard input and output."""

import anyio
from mcp.server.stdio import stdio_server

from gateway.demo_notes.server import build_notes_server


async def serve_notes() -> None:
    """Serves until standard input is closed."""
    server = build_notes_server()
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve_notes)
