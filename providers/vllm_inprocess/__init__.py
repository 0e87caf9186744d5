"""vLLM inside this process: its own asynchronous engine, without HTTP in between.

May import `providers.engines`, `providers.egress` and the modules below them; no other adapter.
"""
