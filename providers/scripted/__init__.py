"""A deterministic model inside the gateway, for tests and first tries.

May import `providers.base`, `providers.config`, `providers.new_id` and `translation`.
"""
