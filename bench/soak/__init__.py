"""Checks whether anything grows under a steady mixed load: `make soak`.

May import `bench.load`, `bench.servers`, `bench.scenarios`, `bench.reports` and `gateway`.
"""
