"""Upstreams behind HTTP: requests, replies, errors and token counts in every wire dialect.

May import `providers.config` and the modules below it, `dataplane` and `translation`.
"""
