"""What a run measures: each scenario, its load and its figures.

May import `bench.load` and `bench.servers`. The chain of turns uses the gateway's store directly.
"""
