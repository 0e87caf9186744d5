"""Shared parts of the lowerers: lists of messages, media URLs, text parts, past reasoning, losses of items.

May import `translation.representation` and `translation.errors`.
"""
