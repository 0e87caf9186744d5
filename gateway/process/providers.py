"""Builds the configured providers."""

from collections.abc import Mapping

from gateway.config.settings import Settings
from gateway.tools.host import build_egress
from providers.base import Provider
from providers.registry import build_provider


def build_providers(settings: Settings, overrides: Mapping[str, Provider] | None = None) -> dict[str, Provider]:
    """Build the configured providers. Those in `overrides` replace configured ones of the same names.

    Nothing is started or connected.
    """
    replaced = dict(overrides or {})
    egress = build_egress(settings.egress)
    configured = settings.providers.items()
    return {
        name: build_provider(name, config, egress) for name, config in configured if name not in replaced
    } | replaced
