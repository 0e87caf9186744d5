"""Measures vector stores: how well they are searched, and how fast: `python -m bench.retrieval`.

May import `gateway`, `providers` and `translation`. What it is compared with runs in a Python of its own.
"""
