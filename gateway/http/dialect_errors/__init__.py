"""Failures in the forms of the APIs that other vendors defined: a module for each, and the table of them.

May import `gateway.http.auth`, `gateway.http.headers`, `gateway.logs`, `gateway.error_replies`, `providers.errors` and
`translation`.
"""
