"""Simulates fleets behind one model name: replicas with prefix caches, and replicas that die, freeze or become slow.

Knows nothing of the gateway's code: it runs it as a command. May import `bench.servers`.
"""
