"""The Responses API: its endpoint and its routes, and those of conversations and contexts.

May import `gateway.routes` and the packages below it.
"""
