"""Clients of the gateway for frameworks.

Knows the gateway's HTTP APIs, and imports none of its code.
"""
