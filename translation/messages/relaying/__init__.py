"""Forwards Messages between a client and an upstream with the same API.

May import `translation.messages` and the packages below the dialects; no other dialect.
"""
