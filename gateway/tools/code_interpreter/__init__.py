"""Code that models write and the gateway has run: the tool `code_interpreter`, by a tool of an MCP server.

May import `dataplane`, `gateway.errors`, `gateway.tools.executors`, `gateway.tools.mapped_tools` and
`translation`.
"""
