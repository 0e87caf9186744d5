"""A deterministic model inside the gateway, for tests and first tries.

May import `dataplane.sharing`, `providers.base`, `providers.config`, `providers.new_id` and `translation`.
"""
