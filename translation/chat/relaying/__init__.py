"""Forwards chat requests and replies between a chat client and a chat upstream, opening only the frames that must change.

May import the rest of `translation.chat`, `translation.chat.lowering` and the packages below the dialects; no other dialect.
"""
