"""Builds the requests of a load and the replies to them, sends the load from a process of its own, and checks replies.

May import `providers.base`, `translation.representation` and `tests.upstream`; no other package of the benchmark.
"""
