"""Starts what a run needs: the gateway, the model server behind it, nginx, peers, databases. Reads what they use.

May import `bench.load`.
"""
