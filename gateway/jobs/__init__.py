"""Runs responses that outlive their HTTP request: claims jobs, renews leases, and writes events to the event log.

May import `gateway.replies`, `gateway.http`, `gateway.state`, `gateway.config` and `gateway.sealing`.
"""
