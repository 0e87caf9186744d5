"""A model name to the upstream that serves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from gateway.config.model_config import ModelConfig
from gateway.config.settings import Settings
from gateway.errors import UnknownModel
from gateway.sealing.reply_seal import ReasoningSeal
from gateway.sealing.sealer import Sealer
from providers.base import Capabilities, Provider
from providers.profiles import profile_for
from translation.representation.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a request for `name` goes, and how that model is spoken to."""

    name: str
    provider: Provider
    capabilities: Capabilities
    upstream_model: str
    profile: Profile
    strict: bool
    resumable: bool = False
    request_defaults: Mapping[str, Any] = field(default_factory=dict)
    reasoning_seal: ReasoningSeal | None = None
    """What carries reasoning to it and back; None where nothing does: in chat, and before it is known who asks."""

    def with_reasoning_seal(self, sealer: Sealer, owner: str) -> "Route":
        """The same for requests of the Responses API by `owner`."""
        carrier = ReasoningSeal(
            sealer, owner, self.provider.name, self.upstream_model, "responses" in self.capabilities.dialects
        )
        return replace(self, reasoning_seal=carrier)


_MAX_CACHED = 256
"""Routes; where a pattern lets any name through, clients write them, so that neither they nor their names are many or
long."""

_MAX_CACHED_CHARS = 200


class Resolver:
    """The configured models, in order; the first whose pattern matches wins."""

    def __init__(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self._rows = [_ModelRow(pattern, model, settings, providers) for pattern, model in settings.models.items()]
        self._resolve_cached = lru_cache(_MAX_CACHED)(self._resolve_uncached)

    def resolve(
        self, name: str, allowed: Sequence[str] = ("*",), sealer_and_owner: tuple[Sealer, str] | None = None
    ) -> Route:
        """`bearer`: for requests of the Responses API, what seals and who asks; the route is `carrying` then.

        Raises UnknownModel, the same for a name nobody serves and one outside `allowed` patterns.
        """
        resolve = self._resolve_uncached if len(name) > _MAX_CACHED_CHARS else self._resolve_cached
        return resolve(name, tuple(allowed), sealer_and_owner)

    def _resolve_uncached(
        self, name: str, allowed: tuple[str, ...], sealer_and_owner: tuple[Sealer, str] | None
    ) -> Route:
        if any(fnmatchcase(name, pattern) for pattern in allowed):
            for row in self._rows:
                if fnmatchcase(name, row.pattern):
                    route = row.build_route(name)
                    return route if sealer_and_owner is None else route.with_reasoning_seal(*sealer_and_owner)
        raise UnknownModel(f"the model '{name:.200}' does not exist: GET /v1/models lists those that do", param="model")

    def model_rows(self) -> "Sequence[_ModelRow]":
        return self._rows


class _ModelRow:
    def __init__(self, pattern: str, model: ModelConfig, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self.pattern = pattern
        self.provider = providers[model.provider]
        self.is_exact = not any(mark in pattern for mark in "*?[")
        self._model = model
        kind = settings.providers[model.provider].type
        self._capabilities = model.resolve_capabilities(self.provider.capabilities)
        profile = profile_for(kind, model.profile_overrides())
        self._profile = replace(profile, extra_params=profile.extra_params | self._capabilities.extensions)

    def build_route(self, name: str) -> Route:
        return Route(
            name=name,
            provider=self.provider,
            capabilities=self._capabilities,
            upstream_model=self._model.model or name,
            profile=self._profile,
            strict=self._model.strict,
            resumable=self._model.resumable,
            request_defaults=self._model.request_defaults,
        )
