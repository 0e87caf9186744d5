"""The Messages API for clients: requests become turns, and events become its messages and streams.

May import `translation.messages` and the packages below the dialects; no other dialect.
"""
