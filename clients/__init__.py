"""Clients of the gateway for frameworks. They know its HTTP APIs and import none of its code."""
