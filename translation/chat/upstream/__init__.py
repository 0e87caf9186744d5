"""Chat Completions as an upstream dialect: turns become requests (lower), replies become events (decode).

May import `translation.chat` and the packages below the dialects; no other dialect.
"""
