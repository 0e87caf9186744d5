"""Ollama's API: its endpoints, its routes, and the forms of its errors and models.

May import `gateway.routes` and the packages below it.
"""
