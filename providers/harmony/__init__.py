"""gpt-oss behind a llama-server, prompted with token ids. Prompts and replies are in the Harmony format.

May import `providers.engines`, `providers.http` and the modules below them; no other adapter.
"""
