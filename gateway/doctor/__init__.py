"""Examines the configured models: starts the gateway on a loopback port, asks it, and reports what fails.

May import `gateway.process` and the packages below it, to start the server; the checks themselves use HTTP only.
"""
