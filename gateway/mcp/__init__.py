"""Connections to MCP servers: lists their tools, and calls them. Only this package knows the `mcp` library.

May import `gateway.errors`, `gateway.logs`, `providers.egress` and `translation`.
"""
