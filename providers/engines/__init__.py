"""Turns on engines that continue a prompt of token ids: two passes, thinking budgets, supervision of the engine.

May import `providers.base`, `providers.errors`, `providers.new_id` and `translation`.
"""
