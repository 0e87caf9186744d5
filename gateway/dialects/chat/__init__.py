"""Chat Completions: its endpoint, its routes, and completions that are stored.

May import `gateway.routes` and the packages below it.
"""
