"""File searches that the gateway runs: the tool `file_search` over vector stores of the owner of a request.

May import `gateway.errors`, `gateway.retrieval`, `gateway.state`, `gateway.tools.executors`, `providers` and
`translation`.
"""
