"""`POST /generate`: requests are adapted to Chat Completions, and replies have a form of their own.

May import `gateway.routes` and the packages below it.
"""
