"""Runs the application: assembles it, listens, starts and replaces worker processes, and stops in order.

May import `gateway.dialects`, `gateway.routes`, `gateway.websocket`, `gateway.metrics`, `gateway.tracing`,
`gateway.service`, `gateway.files`, `gateway.relayed_paths`, `gateway.replies`, `gateway.http`, `gateway.state`,
`gateway.config`, `gateway.logs`, `gateway.log_writer`, `gateway.errors`, `gateway.terminal_text`, `dataplane`,
`providers.base`, `providers.config`, `providers.errors` and `translation`.
"""
