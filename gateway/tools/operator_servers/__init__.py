"""The operator's MCP servers, by their labels. Each exists once in a process.

May import `gateway.config`, `gateway.errors`, `gateway.logs`, `gateway.tools.mcp`, `gateway.sealing`, `gateway.state`,
`providers.egress`, `providers.lookups`, `providers.redaction` and `translation`.
"""
