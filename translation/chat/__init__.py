"""OpenAI's Chat Completions API: what both directions know of its deltas, calls and replies.

May import the packages below the dialects; no other dialect.
"""
