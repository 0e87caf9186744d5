"""Runs the application: assembles it, listens, starts and replaces worker processes, and stops in order.

May import every package of `gateway` but `gateway.cli` and `gateway.doctor`.
"""
