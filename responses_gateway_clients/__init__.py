"""Clients of the gateway for frameworks.

Knows the HTTP APIs of the gateway, and imports none of its code.
"""
