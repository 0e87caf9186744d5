"""Access tokens for MCP servers of the configuration, by client credentials or by the login of a person.

May import `gateway.tools.mcp.errors` and `providers.egress`.
"""
