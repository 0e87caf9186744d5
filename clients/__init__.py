"""Clients of the gateway for frameworks. Knows the gateway's HTTP contracts and imports nothing of its code."""
