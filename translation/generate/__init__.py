"""`POST /generate`, a small API: its request resembles chat, its reply has thinking and answer side by side.

May import the packages below the dialects; no other dialect.
"""
