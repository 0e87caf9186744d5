"""Anthropic's Messages API as an endpoint: its requests become turns, and events become its messages and streams.

May import the packages below the dialects; no other dialect. The same API as an upstream is `translation/anthropic/`.
"""
