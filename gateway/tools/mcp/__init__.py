"""Connections to MCP servers: lists their tools, and calls them. Only this package knows the `mcp` library.

May import `providers.egress` and `translation`.
"""
