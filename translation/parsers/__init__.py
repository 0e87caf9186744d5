"""Parse model text into reasoning, answer and tool calls, incrementally: text may be cut at any character.

May import `translation.tools` and the packages below it; no dialect.
"""
