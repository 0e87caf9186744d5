"""Resolves a model name to the provider and upstream model that serve it, by the config's patterns. Suggests others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from heapq import nlargest
from itertools import islice
from typing import Any, Final

from gateway.config.model_config import ModelConfig
from gateway.config.settings import Settings
from gateway.errors import UnknownModel
from gateway.sealing.reply_seal import ReasoningSeal
from gateway.sealing.sealer import Sealer
from providers.base import Capabilities, Provider
from providers.engine_checks import explain_absent_model, find_tool_parser_problem
from providers.model_families import ModelFamily, find_family
from providers.profiles import build_profile
from translation.errors import InvalidRequest
from translation.representation.profile import Profile

_MAX_NAME_CHARS: Final = 100
_MAX_NAMES: Final = 300
"""The number of names that are compared. Some upstreams list thousands, and clients may repeat the request."""

_MIN_SIMILARITY: Final = 0.6
_MAX_SUGGESTIONS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A provider and upstream model that can serve a request, with the model's capabilities and profile.

    A plan is made for one target. It is all that planning knows of the model's configuration.
    """

    provider: Provider
    capabilities: Capabilities
    upstream_model: str
    profile: Profile
    mcp_servers: Sequence[str] = ()
    """Labels of the servers of `tools.mcp.servers` whose tools are added to each request."""
    reasoning_seal: ReasoningSeal | None = None
    """Seals reasoning in replies and unseals it in requests. None for chat, and before the owner is known."""

    def with_reasoning_seal(self, sealer: Sealer, owner: str) -> "Target":
        """Returns the target for requests of the Responses API by `owner`."""
        seal = ReasoningSeal(
            sealer, owner, self.provider.name, self.upstream_model, "responses" in self.capabilities.dialects
        )
        return replace(self, reasoning_seal=seal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What serves requests for the model `name`."""

    name: str
    targets: tuple[Target, ...]
    """The targets that can serve it, the first choice first. There is at least one."""
    strict: bool
    must_be_listed: bool = False
    """The name goes to the upstream as the client sent it, and is refused if the upstream does not list it."""
    resumable: bool = False
    request_defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """The first choice."""
        return self.targets[0]

    def with_reasoning_seal(self, sealer: Sealer, owner: str) -> "Route":
        """Returns the route for requests of the Responses API by `owner`."""
        return replace(self, targets=tuple(target.with_reasoning_seal(sealer, owner) for target in self.targets))


_MAX_CACHED = 256
"""The number of routes that are cached. A pattern can match any name that a client sends, so the cache is bounded."""

_MAX_CACHED_CHARS = 200
"""Routes of longer names are not cached, for the same reason."""


class Resolver:
    """Resolves names against the configured models in order. The first model whose pattern matches wins."""

    def __init__(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self._rows = [_ModelRow(pattern, model, settings, providers) for pattern, model in settings.models.items()]
        self._resolve_cached = lru_cache(_MAX_CACHED)(self._resolve_uncached)

    def resolve(
        self, name: str, allowed: Sequence[str] = ("*",), sealer_and_owner: tuple[Sealer, str] | None = None
    ) -> Route:
        """Returns the route for a model name.

        `sealer_and_owner` is set for requests of the Responses API; the route then has a reasoning seal. Raises
        UnknownModel, with the same message for an unknown name and for a name that no pattern of `allowed` matches.
        """
        resolve = self._resolve_uncached if len(name) > _MAX_CACHED_CHARS else self._resolve_cached
        return resolve(name, tuple(allowed), sealer_and_owner)

    def _resolve_uncached(
        self, name: str, allowed: tuple[str, ...], sealer_and_owner: tuple[Sealer, str] | None
    ) -> Route:
        if _matches_any(name, allowed):
            for row in self._rows:
                if fnmatchcase(name, row.pattern):
                    route = row.build_route(name)
                    return route if sealer_and_owner is None else route.with_reasoning_seal(*sealer_and_owner)
        known = (row.pattern for row in self._rows if row.is_exact and _matches_any(row.pattern, allowed))
        raise UnknownModel(name, suggest_models(name, known))

    def find_default_model(self, allowed: Sequence[str]) -> str:
        """Returns the first exact model name in the config that `allowed` matches: the default of requests without one.

        Raises InvalidRequest if there is none.
        """
        for row in self._rows:
            if row.is_exact and _matches_any(row.pattern, allowed):
                return row.pattern
        raise InvalidRequest(
            "model is required: the config has no exact model name to use as the default",
            param="model",
            code="missing_required_parameter",
        )

    def list_rows(self) -> "Sequence[_ModelRow]":
        """Returns the configured models in the order of the config."""
        return self._rows


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class _ModelRow:
    def __init__(self, pattern: str, model: ModelConfig, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self.pattern = pattern
        self.provider = providers[model.provider]
        self.is_exact = not any(mark in pattern for mark in "*?[")
        self._model = model
        self._families = settings.model_families
        self._provider_config = settings.providers[model.provider]
        self._capabilities = model.resolve_capabilities(self.provider.capabilities)
        self._must_be_listed = (
            not self.is_exact
            and model.model is None
            and self._capabilities.models
            and self._provider_config.unlisted_models == "refuse"
        )
        self._profiles: dict[str | None, Profile] = {}

    def build_route(self, name: str) -> Route:
        upstream_model = self._model.model or name
        # An engine runs the weights that it loads. The other names are only labels.
        loaded_model = self._provider_config.model
        names = (upstream_model, name) if loaded_model is None else (loaded_model, upstream_model, name)
        target = Target(
            provider=self.provider,
            capabilities=self._capabilities,
            upstream_model=upstream_model,
            profile=self._build_profile(self._model.profile or find_family(names, self._families)),
            mcp_servers=self._model.tools.mcp,
        )
        return Route(
            name=name,
            targets=(target,),
            strict=self._model.strict,
            must_be_listed=self._must_be_listed,
            resumable=self._model.resumable,
            request_defaults=self._model.request_defaults,
        )

    def _build_profile(self, name: str | None) -> Profile:
        """Returns the profile of this row's models of one family. `name` is None for models of an unknown family."""
        if (profile := self._profiles.get(name)) is None:
            kind = self._provider_config.type
            family = None if name is None else self._families[name]
            if family is not None:
                family = self._without_missing_parser(family)
            profile = build_profile(kind, self._model.build_profile_overrides(self._families), family)
            profile = replace(profile, extra_params=profile.extra_params | self._capabilities.extensions)
            self._profiles[name] = profile
        return profile

    def _without_missing_parser(self, family: ModelFamily) -> ModelFamily:
        """Returns the family without a parser of vLLM that is not installed."""
        text = family.text
        if text is None or find_tool_parser_problem(self._provider_config.type, f"vllm:{text.vllm_parser}") is None:
            return family
        return family._replace(text=text._replace(vllm_parser=None))


def suggest_models(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message: what to install for the model, the models of `known` with a similar name, or
    where to find all of them."""
    if (absence := explain_absent_model(name)) is not None:
        return absence
    requested = _pairs_of(name)
    scores = {known_name: _similarity(requested, _pairs_of(known_name)) for known_name in islice(known, _MAX_NAMES)}
    near = [
        best for best in nlargest(_MAX_SUGGESTIONS, scores, key=scores.__getitem__) if scores[best] >= _MIN_SIMILARITY
    ]
    return f"did you mean {' or '.join(near)}?" if near else "GET /v1/models lists those that do"


def _pairs_of(name: str) -> set[str]:
    """Returns the pairs of neighbouring characters of a name, in lower case; none of a name that is too long."""
    name = name.lower()
    return {name[start : start + 2] for start in range(len(name) - 1)} if len(name) <= _MAX_NAME_CHARS else set()


def _similarity(pairs: set[str], other_pairs: set[str]) -> float:
    """Returns the share of pairs that two names have in common, from 0 to 1. Unlike an edit distance it takes linear
    time."""
    return 2 * len(pairs & other_pairs) / ((len(pairs) + len(other_pairs)) or 1)
