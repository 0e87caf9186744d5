"""Ollama's own API for clients: its requests become turns, and events become its lines and whole replies.

May import the packages below the dialects; no other dialect.
"""
