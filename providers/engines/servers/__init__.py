"""Engines behind HTTP, asked in token ids: the servers of vLLM and llama.cpp.

May import `providers.engines`, `providers.http` and `translation`.
"""
