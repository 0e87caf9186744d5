"""Builds the request body of a chat upstream from a turn: messages, content parts, tools.

May import `translation.chat` and the packages below the dialects; no other dialect.
"""
