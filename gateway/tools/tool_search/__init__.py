"""Searches for tools as a kind of hosted tools: a model sees a tool only once a search has found it.

May import `gateway.config`, `gateway.retrieval`, `gateway.tools.executors`, `dataplane` and `translation`.
"""
