"""Forwards chat requests and replies between a chat client and a chat upstream. Opens only frames that must change.

May import the rest of `translation.chat`, `translation.chat.lowering`, and the packages below the dialects.
"""
