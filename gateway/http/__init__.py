"""HTTP handling shared by all routes: request ids, access log, API keys, bodies, headers, query parameters, and
cancellation.

May import `gateway.config`, `gateway.state.store`, `dataplane` and `translation`.
"""
