"""The operator's MCP servers, by their labels: each exists once in a process.

May import `gateway.mcp`, `gateway.config`, `gateway.sealing`, `gateway.state`, `gateway.errors`, `providers` and
`translation`.
"""
