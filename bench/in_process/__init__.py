"""Measures parts of the gateway in one process, without sockets: `python -m bench.in_process`.

The figures are processor time, which a busy machine changes little.

May import `bench.load`, `gateway`, `providers`, `dataplane` and `translation`.
"""
