"""Ollama's own API as an endpoint: its requests become turns, and events become its lines and whole replies.

May import the packages below the dialects; no other dialect. The same API as an upstream is `translation/ollama/`.
"""
