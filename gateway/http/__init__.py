"""HTTP handling shared by all routes: request ids, access log, API keys, bodies, headers, query parameters, and
cancellation.

May import `gateway.state.values`, `gateway.config`, `gateway.logs`, `gateway.error_replies`, `gateway.errors`,
`dataplane`, `providers.config`, `providers.errors`, `providers.new_id`, `providers.request_ids` and `translation`.
"""
