"""Runs the tools of a response that the gateway hosts: the loop of a model and tools, with its I/O.

May import `gateway.mcp`, `gateway.state`, `gateway.errors`, `gateway.logs`, `providers.base` and `translation`.
"""
