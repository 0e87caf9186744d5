"""llama.cpp inside the gateway: its server runs in a child process that only the gateway can reach.

May import `providers.capabilities`, `providers.engines`, `providers.http` and the modules below them; no other adapter.
"""
