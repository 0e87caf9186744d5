"""Prepares item content for upstreams: media URLs, text parts, past reasoning, and what an upstream cannot express.

May import `translation.representation` and `translation.errors`.
"""
