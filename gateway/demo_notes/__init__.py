"""A small MCP server that keeps notes in memory, so that a new user can try tools: `python -m gateway.demo_notes`.

It needs no network. It runs in a process of its own, and no module of the gateway imports it.

May import no other package of the project.
"""
