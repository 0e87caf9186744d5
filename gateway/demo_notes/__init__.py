"""A small MCP server for first tries, which keeps notes in memory: `python -m gateway.demo_notes`. Needs no network.

It runs in a process of its own, and no module of the gateway imports it.

May import no other package of the project.
"""
