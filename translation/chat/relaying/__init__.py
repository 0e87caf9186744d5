"""Forwards chat requests and replies between a chat client and a chat upstream. Opens only frames that must change.

May import `translation.chat` and the packages below the dialects; no other dialect.
"""
