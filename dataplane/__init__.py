"""Moves reply bytes from an upstream's socket to a client's socket: sources, sinks, connections and the client writer.
It also limits the heads of requests, and measures their bodies, so that neither delays the streams.

May import `translation`. `providers` and `gateway` build on it.
"""
