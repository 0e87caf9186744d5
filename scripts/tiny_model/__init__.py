"""Trains the tiny reasoning model that the integration tests put behind the gateway (README.md)."""
