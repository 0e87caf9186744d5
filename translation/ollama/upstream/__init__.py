"""Ollama's own API as an upstream dialect: turns become its requests, and its replies become events.

May import the packages below the dialects; no other dialect.
"""
