"""Encrypts the parts of a reply that an upstream needs back, so that clients can carry them, and decrypts them for
their owner.

May import `gateway.errors` and `translation`.
"""
