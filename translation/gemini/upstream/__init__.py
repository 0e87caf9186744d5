"""Gemini's API as an upstream dialect: turns become requests of `generateContent`, replies become events.

May import the packages below the dialects; no other dialect.
"""
