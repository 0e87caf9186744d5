"""A fleet of two replicas behind a proxy, restarted one after the other under live streams: nothing may fail.

`python -m bench.fleet` runs it. May import `bench.servers` and `bench.load`.
"""
