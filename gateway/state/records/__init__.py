"""Stores records beside responses, in SQL: files, uploads, prompts, approvals, open calls, grants, added MCP
servers, and idempotency keys.

May import `gateway.errors`, `gateway.state.call_records`, `gateway.state.database`, `gateway.state.file_records`,
`gateway.state.idempotency`, `gateway.state.operator_records`, `gateway.state.prompt_records`,
`gateway.state.row_pages`, `gateway.state.row_values`, `gateway.state.upload_records`, `gateway.state.values`,
`translation.hosted` and `translation.representation`.
"""
