"""Gemini's API for clients: requests of `generateContent` become turns, and events become its replies and streams.

May import `translation.gemini` and the packages below the dialects; no other dialect.
"""
