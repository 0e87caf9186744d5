"""Tools of the operator's MCP servers that are run as a hosted tool: calls them, and reads their results by paths.

May import `dataplane`, `gateway.config`, `gateway.tools.executors`, `gateway.tools.mcp`,
`gateway.tools.operator_servers`, `providers.redaction` and `translation`.
"""
