"""OpenAI's Chat Completions dialect, as an endpoint (schema, lift, encode) and as an upstream (lower, decode, relay).

Does not know the other dialects, the network or the store.
"""
