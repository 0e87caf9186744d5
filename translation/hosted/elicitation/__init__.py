"""Elicitation: tools that ask the user for input in the middle of a call. What they ask, and what the answers mean.

No I/O. May import `translation.tools`, `translation.representation` and `translation.hosted.schema_checks`.
"""
