"""Clients of the gateway for frameworks, such as LangChain.

Knows the HTTP APIs of the gateway, and imports none of its code.
"""
