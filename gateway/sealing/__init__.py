"""Encrypts what an upstream needs back of a reply, so that it can travel through clients, and opens it for its owner.

May import `gateway.errors` and `translation`.
"""
