"""Engines that take a prompt as token ids and continue it, and what is built on them: two passes, thinking budgets.

May import `providers.http`, `providers.base`, `providers.errors` and `translation`.
"""
