"""Runs responses that outlive their HTTP request: claims jobs, renews their leases, and writes their events to the log.

May import `gateway.replies`, `gateway.http`, `gateway.state` and `gateway.config`.
"""
