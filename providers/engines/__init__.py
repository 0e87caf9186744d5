"""Engines that take a prompt as token ids and continue it, and what is built on them: two passes, thinking budgets.

May import `providers.base`, `providers.errors`, `providers.new_id` and `translation`.
"""
