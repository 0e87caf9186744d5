"""Forwards Messages between a client and an upstream with the same API.

May import the rest of `translation/messages/`, and the packages below the dialects.
"""
