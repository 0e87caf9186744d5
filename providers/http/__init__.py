"""Upstreams behind HTTP: requests, replies, errors and the counting of input tokens, in every wire dialect.

May import `providers.config` and the modules below it, `dataplane` and `translation`.
"""
