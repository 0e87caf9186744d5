"""The server: HTTP and WebSocket routes, planning, replies, state, configuration and the command line.

Knows upstreams only through `providers.base`, `providers.errors` and the registry. ARCHITECTURE.md shows its layers.
"""
