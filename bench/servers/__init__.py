"""Starts the servers of a run: the gateway, the model server behind it, nginx, peers, databases. Measures their usage.

May import `bench.load` and `tests.databases`.
"""
