"""Clients of the gateway for frameworks. They know its HTTP contracts and nothing of its code."""
