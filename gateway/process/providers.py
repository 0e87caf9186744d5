"""Builds the configured providers."""

from collections.abc import Mapping
from typing import Final

from gateway.config.settings import Settings
from providers.base import Provider
from providers.egress import EgressClient
from providers.registry import build_provider

_MB: Final = 1024 * 1024


def build_providers(settings: Settings, overrides: Mapping[str, Provider] | None = None) -> dict[str, Provider]:
    """Build the configured providers. Those in `overrides` replace configured ones of the same names.

    Nothing is started or connected.
    """
    replaced = dict(overrides or {})
    egress_settings = settings.egress
    egress = EgressClient(
        allow=egress_settings.allow, max_bytes=int(egress_settings.max_mb * _MB), deadline_s=egress_settings.deadline_s
    )
    configured = settings.providers.items()
    return {
        name: build_provider(name, config, egress) for name, config in configured if name not in replaced
    } | replaced
