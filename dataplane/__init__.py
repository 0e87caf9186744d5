"""Moves reply bytes from an upstream's socket to a client's socket: sources, sinks, connections and the client writer.
It also limits the heads of requests, measures their bodies, and shares threads among owners, so that nothing delays the
streams.

May import `translation`. `providers` and `gateway` build on it.
"""
