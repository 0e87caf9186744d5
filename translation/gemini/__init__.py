"""Gemini's own API, `generateContent`, for clients and as an upstream dialect. https://ai.google.dev/api/generate-content

May import the packages below the dialects; no other dialect.
"""
