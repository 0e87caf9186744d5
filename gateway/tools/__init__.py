"""Runs the tools of a response that the gateway hosts: the loop of a model and tools, with its I/O.

May import `dataplane`, `gateway.config`, `gateway.errors`, `gateway.logs`, `gateway.retrieval`,
`gateway.tools.executors`, `gateway.tools.mcp_tools`, `gateway.tools.mcp`, `gateway.tools.operator_servers`,
`gateway.sealing`, `gateway.state`, `providers.base`, `providers.egress`, `providers.new_id`, `providers.redaction`
and `translation`.
"""
