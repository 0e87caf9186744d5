"""Records of requests in SQL: the idempotency keys that clients give them.

May import `gateway.state.database`, `gateway.state.idempotency` and `gateway.state.ids`.
"""
