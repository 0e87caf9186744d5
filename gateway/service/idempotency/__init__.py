"""Requests with an idempotency key. May import what `gateway.service` may."""
