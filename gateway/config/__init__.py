"""Reads, checks and completes the operator's configuration. The only package that reads the environment.

May import `providers.base`, `providers.capabilities`, `providers.config`, `providers.engine_checks`,
`providers.errors`, `providers.model_families`, `providers.overrides`, `providers.registry` and `translation`.
"""
