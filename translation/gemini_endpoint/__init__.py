"""Gemini's API as an endpoint: requests of `generateContent` become turns, and events become its replies and streams.

May import the packages below the dialects; no other dialect. The same API as an upstream is `translation/gemini/`.
"""
