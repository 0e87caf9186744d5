"""Endpoints that are only relayed: embeddings, audio, images and others, with their bodies and replies as bytes.

May import `gateway.planning`, `gateway.http`, `gateway.config`, `gateway.logs`, `gateway.errors`, `providers` and
`translation`.
"""
