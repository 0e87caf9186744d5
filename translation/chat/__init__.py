"""OpenAI's Chat Completions dialect, as an endpoint (schema, lift, encode) and as an upstream (lower, decode, relay).

May import the packages below the dialects; no other dialect.
"""
