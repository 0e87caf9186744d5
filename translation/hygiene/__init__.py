"""Corrects what can go wrong on any upstream around tool calls: past calls, tools, and the calls of a reply. Moves what
would spoil an upstream's prefix cache.

May import `translation.parsers`, `translation.tools` and the packages below them; no dialect.
"""
