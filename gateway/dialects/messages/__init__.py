"""Anthropic's Messages API: its endpoint, its routes, its threads, and the forms of its errors and models.

May import `gateway.routes` and the packages below it.
"""
