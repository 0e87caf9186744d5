"""A model name to the upstream that serves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from gateway.config.model_config import ModelConfig
from gateway.config.settings import Settings
from gateway.errors import UnknownModel
from gateway.sealing.reply_seal import Carrier
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
    carrier: Carrier | None = None
    """What carries reasoning to it and back; None where nothing does: in chat, and before it is known who asks."""

    def carrying(self, sealer: Sealer, owner: str) -> "Route":
        """The same for requests of the Responses API by `owner`."""
        carrier = Carrier(
            sealer, owner, self.provider.name, self.upstream_model, "responses" in self.capabilities.dialects
        )
        return replace(self, carrier=carrier)


_MAX_REMEMBERED = 256
"""Routes; where a pattern lets any name through, clients write them, so that neither they nor their names are many or
long."""

_MAX_REMEMBERED_CHARS = 200


class Resolver:
    """The configured models, in order; the first whose pattern matches wins."""

    def __init__(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self._rows = [_Row(pattern, model, settings, providers) for pattern, model in settings.models.items()]
        self._remembered = lru_cache(_MAX_REMEMBERED)(self._find)

    def resolve(self, name: str, allowed: Sequence[str] = ("*",), bearer: tuple[Sealer, str] | None = None) -> Route:
        """`bearer`: for requests of the Responses API, what seals and who asks; the route is `carrying` then.

        Raises UnknownModel, the same for a name nobody serves and one outside `allowed` patterns.
        """
        find = self._find if len(name) > _MAX_REMEMBERED_CHARS else self._remembered
        return find(name, tuple(allowed), bearer)

    def _find(self, name: str, allowed: tuple[str, ...], bearer: tuple[Sealer, str] | None) -> Route:
        if any(fnmatchcase(name, pattern) for pattern in allowed):
            for row in self._rows:
                if fnmatchcase(name, row.pattern):
                    route = row.route(name)
                    return route if bearer is None else route.carrying(*bearer)
        raise UnknownModel(f"the model '{name:.200}' does not exist: GET /v1/models lists those that do", param="model")

    def rows(self) -> "Sequence[_Row]":
        return self._rows


class _Row:
    def __init__(self, pattern: str, model: ModelConfig, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self.pattern = pattern
        self.provider = providers[model.provider]
        self.is_exact = not any(mark in pattern for mark in "*?[")
        self._model = model
        kind = settings.providers[model.provider].type
        self._capabilities = model.capabilities_over(self.provider.capabilities)
        profile = profile_for(kind, model.profile_overrides())
        self._profile = replace(profile, extra_params=profile.extra_params | self._capabilities.extensions)

    def route(self, name: str) -> Route:
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
