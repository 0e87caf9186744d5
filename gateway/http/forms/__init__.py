"""Multipart forms: their parser, and their body as it arrives.

May import `dataplane.http_protocol`, `gateway.errors`, `gateway.http` and `translation.errors`.
"""
