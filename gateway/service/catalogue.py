"""The list of models: exact names from the config, and for patterns the names that their upstreams list."""

import asyncio
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

import structlog

from gateway.errors import UnknownModel
from gateway.planning.resolver import Resolver
from gateway.service.provider_lifetimes import ProviderHold
from providers.base import Provider
from providers.errors import ProviderError
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_REFRESH_S = 60.0


class Catalogue:
    """Lists models. Each upstream is asked at most once a minute; if it fails, its last known names stay listed."""

    def __init__(self, resolver: Resolver, provider_hold: ProviderHold | None = None) -> None:
        self._resolver = resolver
        self._provider_hold = provider_hold
        self._created = int(time.time())
        self._served_models: dict[str, tuple[float, Sequence[str]]] = {}

    async def list_models(self, allowed: Sequence[str], *, wait_s: float | None = None) -> list[Json]:
        """Returns the model objects whose names match one of the `allowed` patterns, in the order of the config.

        An upstream that does not list its models within `wait_s` seconds is listed with the names that are known of it.
        Without `wait_s`, only the timeouts of the upstream apply.
        """
        rows = self._resolver.model_rows()
        patterned = {row.provider.name: row.provider for row in rows if not row.is_exact}
        await asyncio.gather(*(self._refresh_models(provider, wait_s) for provider in patterned.values()))
        names: dict[str, str] = {}
        for row in rows:
            owner = row.provider.name
            served = [row.pattern] if row.is_exact else self._known_names(owner)
            for name in served:
                if row.is_exact or fnmatchcase(name, row.pattern):
                    names.setdefault(name, owner)
        return [
            {"id": name, "object": "model", "created": self._created, "owned_by": owner}
            for name, owner in names.items()
            if any(fnmatchcase(name, pattern) for pattern in allowed)
        ]

    def has_model(self, name: str, allowed: Sequence[str]) -> bool:
        """Return whether requests for a model of this name are accepted."""
        try:
            self._resolver.resolve(name, allowed)
        except UnknownModel:
            return False
        return True

    def list_patterns(self, allowed: Sequence[str]) -> list[tuple[str, str]]:
        """Returns (pattern, provider) of the configured patterns, if `allowed` contains every name they match."""
        if "*" not in allowed:
            return []
        return [(row.pattern, row.provider.name) for row in self._resolver.model_rows() if not row.is_exact]

    def get_model(self, name: str, allowed: Sequence[str]) -> Json:
        """Returns one model object. Raises UnknownModel if no model matches or none of the `allowed` patterns does."""
        route = self._resolver.resolve(name, allowed)
        return {"id": name, "object": "model", "created": self._created, "owned_by": route.provider.name}

    def _known_names(self, provider: str) -> Sequence[str]:
        return self._served_models.get(provider, (0.0, ()))[1]

    async def _refresh_models(self, provider: Provider, wait_s: float | None) -> None:
        refreshed_at, _ = self._served_models.get(provider.name, (float("-inf"), ()))
        if time.monotonic() - refreshed_at < _REFRESH_S:
            return
        try:
            async with asyncio.timeout(wait_s):
                served = await provider.list_models()
        except TimeoutError:
            _log.warning("models_unknown", provider=provider.name, error=f"no list of models within {wait_s:g} s")
            return
        except ProviderError as error:
            _log.warning("models_unknown", provider=provider.name, error=error.message)
            # A concurrent call may have fetched the names in the meantime.
            served = self._known_names(provider.name)
        self._served_models[provider.name] = (time.monotonic(), served)
