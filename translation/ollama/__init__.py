"""Ollama's own API, for clients and as an upstream dialect.

May import the packages below the dialects; no other dialect.
"""
