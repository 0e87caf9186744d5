"""Engines behind HTTP, prompted with token ids: the servers of vLLM and llama.cpp.

May import `providers.engines`, `providers.http` and the modules below them.
"""
