"""OpenAI's Responses API: what both directions know of its items, summaries and token counts.

May import the packages below the dialects; no other dialect.
"""
