"""Adapters, one per type of upstream. All of them implement the protocol in `providers/base.py`.

May import `dataplane` and `translation`.
"""
