"""File searches that the gateway runs: the tool `file_search` over vector stores of the owner of a request, or by a
tool of an MCP server.

May import `dataplane`, `gateway.errors`, `gateway.retrieval`, `gateway.state`, `gateway.tools.executors`,
`gateway.tools.mapped_tools`, `providers` and `translation`.
"""
