"""Requests with an idempotency key: each key is run once, and repeated requests get the same reply.

May import `gateway.service`, `gateway.replies`, `gateway.http`, `gateway.state`, `gateway.config`, `gateway.errors`,
`dataplane` and `translation`.
"""
