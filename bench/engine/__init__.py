"""Measures vLLM inside the gateway, with one pass and with two: `make bench-engine`. Its reports go to bench/results.

May import `bench.reports`, `bench.servers`, `gateway`, `providers` and `translation`. The recording gateway runs in an
environment with vLLM.
"""
