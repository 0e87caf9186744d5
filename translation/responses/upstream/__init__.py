"""The Responses API as an upstream dialect: turns become requests (lower), replies become events (decode).

May import `translation.responses` and the packages below the dialects; no other dialect.
"""
