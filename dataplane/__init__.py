"""Moves reply bytes from an upstream's socket to a client's socket: sources, sinks, connections and the client writer.

May import `translation` only. `providers` and `gateway` build on it.
"""
