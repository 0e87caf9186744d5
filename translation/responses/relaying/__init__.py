"""Forwards Responses requests and replies between a Responses client and a Responses upstream.

May import `translation.responses` and the packages below the dialects; no other dialect.
"""
