"""Vector stores of clients: reads requests, indexes attached files, and searches.

May import `dataplane`, `gateway.config`, `gateway.errors`, `gateway.files`, `gateway.logs`, `gateway.retrieval`,
`gateway.state`, `gateway.upstreams`, `providers` and `translation`.
"""
