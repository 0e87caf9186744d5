"""Produces replies: event streams and JSON objects of each API, the loss header, and what is stored of them.

May import `gateway.http`, `gateway.state.store`, `dataplane`, `providers` and `translation`.
"""
