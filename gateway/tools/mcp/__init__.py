"""Connections to MCP servers: lists their tools, and calls them. Only this package knows the `mcp` library.

May import `dataplane`, `gateway.tools.executors`, `providers.egress` and `translation`.
"""
