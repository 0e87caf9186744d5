"""Tests what the configured models can do: starts the gateway on a loopback port, sends requests, reports failures.

May import `gateway.service`, `gateway.tools.host`, `gateway.tools.operator_servers`, `gateway.tools.mcp`,
`gateway.tools.mapped_tools`, `gateway.tools.web_search`, `gateway.vector_stores`, `gateway.retrieval`,
`gateway.upstreams`, `gateway.state`, `gateway.blobs`, `gateway.config`, `gateway.logs`, `gateway.errors`,
`gateway.pages`, `gateway.terminal_text`, `gateway.version`, `providers.base`, `providers.errors`,
`providers.registry`, `providers.new_id`, `providers.redaction` and `translation`.
"""
