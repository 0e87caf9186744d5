"""Runs the tools of a response that the gateway hosts: the loop of a model and tools, with its I/O.

May import `gateway.mcp`, `gateway.config`, `gateway.state`, `gateway.errors`, `providers` and `translation`.
"""
