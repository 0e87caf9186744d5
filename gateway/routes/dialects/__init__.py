"""HTTP routes of the APIs that other vendors defined, a module for each.

May import `gateway.routes`, `gateway.service`, `gateway.planning`, `gateway.replies`, `gateway.http`, `gateway.errors`
and `translation`.
"""
