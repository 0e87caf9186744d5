"""The scenarios of a run: the load and the figures of each.

May import `bench.load`, `bench.servers`, `gateway`, `providers.new_id` and `translation`. The chain of turns uses the
gateway's store directly.
"""
