"""What every HTTP request passes: request ids, access log, keys, bodies, headers, query parameters, cancellation.

May import `gateway.config`, `gateway.state.store`, `dataplane` and `translation`.
"""
