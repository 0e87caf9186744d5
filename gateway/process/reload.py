"""Replaces the configuration of a running server: its keys, providers and models."""

import structlog

from gateway.config.settings import Settings
from gateway.process.updates import RejectedConfiguration, SettingsUpdates
from gateway.service.provider_lifetimes import ProviderLifetimes, build_providers
from gateway.service.service import Service

_log = structlog.get_logger(__name__)


class Reloader:
    """Replaces the configuration of a service. Either all of it changes or nothing."""

    def __init__(self, service: Service, lifetimes: ProviderLifetimes) -> None:
        self._service = service
        self._lifetimes = lifetimes

    async def follow(self, updates: SettingsUpdates) -> None:
        """Applies or rejects each update, for ever."""
        async for update in updates.follow():
            if isinstance(update, Settings):
                self.apply(update)
            else:
                self.reject(update)

    def apply(self, settings: Settings) -> None:
        """Serves all further requests by `settings`, whose fixed sections equal the present ones.

        A provider whose configuration is the same remains, with its connections and its engine.
        """
        service, running = self._service, self._service.settings
        unchanged = {
            name: self._lifetimes.providers[name]
            for name, config in settings.providers.items()
            if running.providers.get(name) == config
        }
        try:
            providers = build_providers(settings, unchanged)
            last_hold = service.current.provider_hold
            service.use_configuration(settings, providers)
        except Exception:  # the server must continue with its present configuration
            _log.exception("configuration_rejected")
            service.configuration_problem = "not reloaded, see the log"
            return
        service.configuration_problem = None
        self._lifetimes.replace(providers, last_hold)
        _log.info(
            "configuration_reloaded",
            providers_changed=len(providers) - len(unchanged),
            providers=len(providers),
            models=len(settings.models),
        )

    def reject(self, rejected: RejectedConfiguration) -> None:
        """Reports a configuration that cannot be used. The present one stays in use."""
        self._service.configuration_problem = rejected.summary
        _log.error("configuration_rejected", problems=rejected.problems)
