"""Engines behind HTTP that continue prompts of token ids: the servers of vLLM and llama.cpp.

May import `providers.engines`, `providers.http` and the modules below them.
"""
