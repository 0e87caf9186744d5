"""Traces for OpenTelemetry: numbers of each request, spans that are built of them at its end, and their export.

Not imported if traces are off, and only `spans` and `export` import OpenTelemetry. May import `gateway.replies`,
`gateway.http`, `gateway.config`, `gateway.version` and `translation`.
"""
