"""Shared parts of the lowerers: lists of messages, media URLs, text parts, past reasoning, losses of items, and the
tools that a client searches for.

May import `translation.representation` and `translation.errors`.
"""
