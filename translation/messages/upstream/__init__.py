"""Anthropic's Messages API as an upstream dialect: lowers turns to its requests and decodes its replies to events.

May import the packages below the dialects; no other dialect.
"""
