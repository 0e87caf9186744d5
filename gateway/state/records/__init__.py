"""Stores records beside responses, in SQL: approvals, open calls, grants, added MCP servers, and idempotency keys.

May import `gateway.state.call_records`, `gateway.state.database`, `gateway.state.idempotency`,
`gateway.state.operator_records`, `gateway.state.row_values` and `translation.hosted`.
"""
