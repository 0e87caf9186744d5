"""Tests what the configured models can do: starts the gateway on a loopback port, sends requests, reports failures.

May import `gateway.process` and the packages below it, to start the server; the checks themselves use HTTP only.
"""
