"""Normalizes tool calls for every upstream: past calls, tools, and the calls of a reply. Moves lines that would spoil
an upstream's prefix cache.

May import `translation.parsers`, `translation.tools`, `translation.representation` and `translation.errors`.
"""
