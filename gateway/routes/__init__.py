"""HTTP routes. A handler parses its request, calls the service, and builds the reply.

May import `gateway.service`, `gateway.files`, `gateway.planning`, `gateway.relayed_paths`,
`gateway.tools.operator_servers`, `gateway.replies`, `gateway.http`, `gateway.state`, `gateway.config`,
`gateway.errors`, `gateway.logs`, `gateway.pages`, `gateway.version` and `translation`.
"""
