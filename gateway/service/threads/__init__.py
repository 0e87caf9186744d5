"""Threads of conversations that the gateway stores for clients of APIs with threads: AG-UI, and Messages.

May import `gateway.service.run`, `gateway.planning`, `gateway.tools`, `gateway.replies`, `gateway.state`,
`gateway.errors`, `providers.new_id` and `translation`.
"""
