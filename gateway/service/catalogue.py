"""The list of models: exact names from the config, and for patterns the names that their upstreams list."""

import asyncio
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

import structlog

from gateway.planning.resolver import Resolver
from providers.base import Provider
from providers.errors import ProviderError
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_REFRESH_S = 60.0


class Catalogue:
    """Lists models. Each upstream is asked at most once a minute; if it fails, its last known names stay listed."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._created = int(time.time())
        self._served_models: dict[str, tuple[float, Sequence[str]]] = {}

    async def list_models(self, allowed: Sequence[str]) -> list[Json]:
        """Returns the model objects whose names match one of the `allowed` patterns, in the order of the config."""
        rows = self._resolver.model_rows()
        patterned = {row.provider.name: row.provider for row in rows if not row.is_exact}
        await asyncio.gather(*(self._refresh_models(provider) for provider in patterned.values()))
        names: dict[str, str] = {}
        for row in rows:
            owner = row.provider.name
            served = [row.pattern] if row.is_exact else self._served_models[owner][1]
            for name in served:
                if row.is_exact or fnmatchcase(name, row.pattern):
                    names.setdefault(name, owner)
        return [
            {"id": name, "object": "model", "created": self._created, "owned_by": owner}
            for name, owner in names.items()
            if any(fnmatchcase(name, pattern) for pattern in allowed)
        ]

    def get_model(self, name: str, allowed: Sequence[str]) -> Json:
        """Returns one model object. Raises UnknownModel if no model matches or none of the `allowed` patterns does."""
        route = self._resolver.resolve(name, allowed)
        return {"id": name, "object": "model", "created": self._created, "owned_by": route.provider.name}

    async def _refresh_models(self, provider: Provider) -> None:
        refreshed_at, _ = self._served_models.get(provider.name, (float("-inf"), ()))
        if time.monotonic() - refreshed_at < _REFRESH_S:
            return
        try:
            served = await provider.list_models()
        except ProviderError as error:
            _log.warning("models_unknown", provider=provider.name, error=error.message)
            # A concurrent call may have fetched the names in the meantime.
            _, served = self._served_models.get(provider.name, (0.0, ()))
        self._served_models[provider.name] = (time.monotonic(), served)
