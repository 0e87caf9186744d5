"""Threads of conversations that the gateway stores for clients of APIs with threads: AG-UI, and Messages.

May import what `gateway.service` may import, and of that `run` alone.
"""
