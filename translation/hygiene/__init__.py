"""Corrects what can go wrong around tool calls on any upstream: past calls, tools, and the calls of a reply.

May import `translation.parsers`, `translation.tools` and the packages below them; no dialect.
"""
