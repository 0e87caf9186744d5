"""The server: HTTP and WebSocket routes, planning, replies, state, configuration and the command line. ARCHITECTURE.md
shows its layers. Its own modules are used by all its packages: errors, logs, text tables.

May import `gateway.cli`, `providers.errors` and `translation`.
"""
