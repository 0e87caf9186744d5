"""Parses model text into reasoning, answer and tool calls, incrementally: text may be cut at any character.

May import `translation.tools`, `translation.representation` and `translation.text_forms`.
"""
