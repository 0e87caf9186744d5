"""MCP servers as a kind of hosted tools: the servers that requests name, and the executors of their tools.

May import `dataplane.sharing.work_pool`, `gateway.config`, `gateway.tools.executors`, `gateway.tools.mcp`,
`gateway.tools.operator_servers`, `providers.egress` and `translation`.
"""
