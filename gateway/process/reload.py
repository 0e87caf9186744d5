"""Replaces the configuration of a running server: its keys, providers and models."""

import structlog

from gateway.config.settings import Settings
from gateway.errors import StoreUnavailable
from gateway.process.updates import RejectedConfiguration, SettingsUpdate, SettingsUpdates
from gateway.service.provider_lifetimes import ProviderLifetimes, build_providers
from gateway.service.service import Service
from gateway.state.values import SchemaMismatch

_log = structlog.get_logger(__name__)


class Reloader:
    """Replaces the configuration of a service. Either all of it changes or nothing."""

    def __init__(self, service: Service, lifetimes: ProviderLifetimes) -> None:
        self._service = service
        self._lifetimes = lifetimes

    async def follow(self, updates: SettingsUpdates) -> None:
        """Applies or rejects each update, for ever."""
        async for update in updates.follow():
            judged = await self._judge(update) if isinstance(update, Settings) else update
            if isinstance(judged, Settings):
                self.apply(judged)
            else:
                self.reject(judged)

    async def _judge(self, settings: Settings) -> SettingsUpdate:
        """Returns the settings, or why the database cannot serve them: what the start of a server checks too."""
        if settings.tools.file_search.embeddings is None or self._service.settings.tools.file_search.embeddings:
            return settings
        place = "tools.file_search.embeddings"
        try:
            await self._service.state.require_vectors()
        except (SchemaMismatch, StoreUnavailable) as error:
            return RejectedConfiguration(f"not reloaded, see the log: {place}", f"{place}: {error}")
        return settings

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
