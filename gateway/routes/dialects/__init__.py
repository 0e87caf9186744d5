"""HTTP routes of the APIs that other vendors defined, a module for each.

May import what `gateway.routes` may.
"""
