"""Upstreams behind HTTP: requests, replies, errors and token counts in every wire dialect.

May import `dataplane`, `providers.base`, `providers.config`, `providers.errors` and `translation`.
"""
