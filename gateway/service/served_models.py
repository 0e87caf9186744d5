"""The models that are served: exact names from the config, and for patterns the names that their upstreams list."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple, TypeAlias

import structlog
from starlette.datastructures import QueryParams
from starlette.types import Scope

from gateway.errors import UnknownModel
from gateway.planning.resolver import Resolver, Route, Target, suggest_models
from gateway.relayed_paths.relays import PathRoute, PathTarget
from gateway.service.provider_lifetimes import ProviderHold
from gateway.upstreams.affinity import AffinityFacts, find_affinity_key
from gateway.upstreams.shared_turn import SharedTurn
from providers.base import Capabilities, Provider
from providers.errors import ProviderError
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_REFRESH_S = 60.0
"""The largest age in seconds of an upstream's names in the list of models. A failed attempt counts as long."""

_RECHECK_S = 5.0
"""The largest age in seconds of the names if a client requests another one, which may have been loaded since."""

_LIST_WAIT_S = 2.0
"""The seconds that a request waits for the names of its upstream."""


CapabilitiesLookup: TypeAlias = Callable[[str], Capabilities]
"""Returns what a model's upstream can do, by the model's name."""


class ModelsForm(NamedTuple):
    """The form in which the clients of an API get models at these paths, if it is another one than OpenAI's."""

    is_request: Callable[[Scope], bool]
    """Whether a request belongs to the API."""
    build_list: Callable[[Sequence[Json], QueryParams, CapabilitiesLookup], Json]
    """Returns one page of the list of models."""
    build_model: Callable[[Json, CapabilitiesLookup], Json]
    build_headers: Callable[[], Mapping[str, str]] = dict


class _Listing(NamedTuple):
    """The names that one upstream has listed."""

    names: Mapping[str, None]
    lowered: frozenset[str]
    """The names in lower case."""
    fetched_at: float
    unavailable_until: float = float("-inf")
    """Until when names are not checked against the list, because it could not be fetched, or was empty."""


_NOTHING_LISTED = _Listing({}, frozenset(), float("-inf"))


class ServedModels:
    """Lists models, and checks names against the lists of upstreams.

    If an upstream cannot list its models, its last known names stay listed.
    """

    def __init__(self, resolver: Resolver, provider_hold: ProviderHold | None = None) -> None:
        self._resolver = resolver
        self._provider_hold = provider_hold
        self._created = int(time.time())
        self._listings: dict[str, _Listing] = {}
        self._fetching: dict[str, asyncio.Lock] = {}
        """By provider. One request fetches the list, and the others wait for it."""

    async def list_models(self, allowed: Sequence[str], *, wait_s: float | None = None) -> list[Json]:
        """Returns the model objects whose names match one of the `allowed` patterns, in the order of the config.

        For an upstream that does not list its models within `wait_s` seconds, the last known names are listed. Without
        `wait_s`, only the timeouts of the upstream apply.
        """
        rows = self._resolver.list_rows()
        patterned = {each.name: each for row in rows if not row.is_exact for each in row.serving_providers}
        await asyncio.gather(*(self._refresh_for_listing(provider, wait_s) for provider in patterned.values()))
        return [
            {"id": name, "object": "model", "created": self._created, "owned_by": owner}
            for name, owner in self._known_models(allowed).items()
        ]

    def has_model(self, name: str, allowed: Sequence[str]) -> bool:
        """Returns whether requests for a model of this name are accepted."""
        try:
            self._resolver.resolve(name, allowed)
        except UnknownModel:
            return False
        return True

    def find_route(self, name: str, allowed: Sequence[str]) -> Route:
        """Returns the route of a model. Raises UnknownModel."""
        return self._resolver.resolve(name, allowed)

    def find_path_route(
        self, name: str, allowed: Sequence[str], headers: Mapping[bytes, bytes], owner: str
    ) -> PathRoute:
        """Returns what serves a model at paths that are only relayed, and the turn of a request by its headers and
        owner. Raises UnknownModel."""
        route = self.find_route(name, allowed)
        targets = [
            PathTarget(
                route.name,
                target.provider,
                target.upstream_model,
                target.capabilities.endpoints,
                partial(self.require_listed, route, allowed),
                0 if target.candidate is None else target.candidate.index,
            )
            for target in route.targets
        ]
        if (sharing := route.sharing) is None:
            return PathRoute(route.pattern, targets, None)
        key = find_affinity_key(sharing.affinity, headers, AffinityFacts(), owner)
        return PathRoute(route.pattern, targets, SharedTurn(sharing, route.candidates, key))

    def find_default_model(self, allowed: Sequence[str]) -> str:
        """Returns the first exact model name of the config that `allowed` matches. Raises InvalidRequest."""
        return self._resolver.find_default_model(allowed)

    def find_capabilities(self, allowed: Sequence[str], name: str) -> Capabilities:
        """Returns what a model's upstream can do. Raises UnknownModel."""
        return self.find_route(name, allowed).target.capabilities

    def is_exact_name(self, name: str) -> bool:
        """Whether a name is configured as it is, and not only matched by a pattern."""
        return any(row.is_exact and row.pattern == name for row in self._resolver.list_rows())

    def list_patterns(self, allowed: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Returns (pattern, providers) of the configured patterns, if `allowed` contains every name they match."""
        if "*" not in allowed:
            return []
        return [
            (row.pattern, [upstream.provider.name for upstream in row.upstreams])
            for row in self._resolver.list_rows()
            if not row.is_exact
        ]

    def list_providers(self, allowed: Sequence[str]) -> list[str]:
        """Returns the names of the providers of the configured models that one of the `allowed` patterns matches."""
        rows = self._resolver.list_rows()
        may_use = (row for row in rows if "*" in allowed or (row.is_exact and self.has_model(row.pattern, allowed)))
        return list(dict.fromkeys(upstream.provider.name for row in may_use for upstream in row.upstreams))

    def list_serving_providers(self, name: str) -> list[str]:
        """Returns the names of the providers that may get turns for a model, the first choice first. Raises
        UnknownModel."""
        targets = self._resolver.resolve(name).serving_targets
        return list(dict.fromkeys(target.provider.name for target in targets))

    async def get_model(self, name: str, allowed: Sequence[str]) -> Json:
        """Returns one model object. Raises UnknownModel if no model matches, if none of the `allowed` patterns does, or
        if none of its upstreams lists it."""
        route = self._resolver.resolve(name, allowed)
        await self.require_listed(route, allowed)
        owner = route.target
        if route.must_be_listed:
            owner = next((target for target in route.serving_targets if self._is_listed(target)), owner)
        return {"id": name, "object": "model", "created": self._created, "owned_by": owner.provider.name}

    async def require_listed(self, route: Route, allowed: Sequence[str]) -> None:
        """Raises UnknownModel if the route's name is only known by a pattern and none of its upstreams lists it.

        A name that was listed once costs no request. For another name the lists are fetched that are older than a few
        seconds. If one of them cannot be fetched, every name is accepted. The error names similar models that one of
        the `allowed` patterns matches.
        """
        if not route.must_be_listed or self._may_have(route):
            return
        providers = {target.provider.name: target.provider for target in route.serving_targets}
        await asyncio.gather(*(self._recheck(provider, route) for provider in providers.values()))
        if self._may_have(route):
            return
        _log.info("model_not_listed", provider=", ".join(providers), hint="unlisted_models: forward")
        raise UnknownModel(route.name, suggest_models(route.name, self._known_models(allowed)))

    async def _recheck(self, provider: Provider, route: Route) -> None:
        """Fetches a provider's list of models, unless another request has found the route's name in the meantime."""
        async with self._fetching.setdefault(provider.name, asyncio.Lock()):
            if not self._may_have(route):
                await self._refresh_models(provider, _LIST_WAIT_S, _RECHECK_S)

    def _may_have(self, route: Route) -> bool:
        """Whether one of the upstreams that get turns lists the route's name, or has no list at present."""
        return any(self._is_listed(target) or self._is_unavailable(target.provider) for target in route.serving_targets)

    def _is_listed(self, target: Target) -> bool:
        listing = self._listings.get(target.provider.name)
        return listing is not None and (
            target.upstream_model in listing.names or not listing.lowered.isdisjoint(_spellings(target.upstream_model))
        )

    def _is_unavailable(self, provider: Provider) -> bool:
        return time.monotonic() < self._listings.get(provider.name, _NOTHING_LISTED).unavailable_until

    def _known_models(self, allowed: Sequence[str]) -> dict[str, str]:
        """Returns model name -> provider, for the names that one of the `allowed` patterns matches."""
        names: dict[str, str] = {}
        for row in self._resolver.list_rows():
            if row.is_exact:
                names.setdefault(row.pattern, row.provider.name)
                continue
            for owner in row.serving_providers:
                for name in self._listings.get(owner.name, _NOTHING_LISTED).names:
                    if fnmatchcase(name, row.pattern):
                        names.setdefault(name, owner.name)
        return {name: owner for name, owner in names.items() if any(fnmatchcase(name, entry) for entry in allowed)}

    async def _refresh_for_listing(self, provider: Provider, wait_s: float | None) -> None:
        if problem := await self._refresh_models(provider, wait_s, _REFRESH_S):
            _log.warning("model_list_failed", provider=provider.name, error=problem)

    async def _refresh_models(self, provider: Provider, wait_s: float | None, max_age_s: float) -> str | None:
        """Fetches the list of a provider if it is older than `max_age_s`. Returns why that failed, else None.

        A failed attempt counts as a list. A timeout does not, because it depends on `wait_s`.
        """
        listing = self._listings.get(provider.name, _NOTHING_LISTED)
        if time.monotonic() - listing.fetched_at < max_age_s:
            return None
        try:
            async with asyncio.timeout(wait_s):
                names = await provider.list_models()
        except TimeoutError:
            problem = f"no list of models within {wait_s:g} s"
            fetched_at = listing.fetched_at
        except ProviderError as error:
            problem = error.message
            fetched_at = time.monotonic()
        else:
            lowered, now = frozenset(name.lower() for name in names), time.monotonic()
            until = float("-inf") if names else now + _REFRESH_S
            self._listings[provider.name] = _Listing(dict.fromkeys(names), lowered, now, until)
            return None
        # A concurrent call may have fetched the names in the meantime.
        known = self._listings.get(provider.name, _NOTHING_LISTED)
        self._listings[provider.name] = known._replace(
            fetched_at=fetched_at, unavailable_until=time.monotonic() + _REFRESH_S
        )
        return problem


def _spellings(name: str) -> set[str]:
    """Returns the spellings of a name in a list: Ollama ignores case, and lists a name without a tag as `latest`."""
    return {name.lower(), f"{name.lower()}:latest"}
