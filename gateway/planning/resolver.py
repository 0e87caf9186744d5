"""Resolves a model name to the provider and upstream model that serve it, by the config's patterns. Suggests others."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from heapq import nlargest
from itertools import islice
from typing import Any, Final

from gateway.config.model_config import ModelConfig, UpstreamRow
from gateway.config.settings import Settings
from gateway.errors import UnknownModel
from gateway.logs import MAX_LOGGED_CHARS
from gateway.sealing.reply_seal import ReasoningSeal
from gateway.sealing.sealer import Sealer
from gateway.upstreams.candidates import Candidate, TurnCandidates, prepare_candidates
from gateway.upstreams.health import UpstreamHealth, UpstreamName
from gateway.upstreams.load_reports import LOAD_REQUEST
from gateway.upstreams.registry import Sharing, UpstreamRegistry
from providers.base import Capabilities, Dialect, Provider, ShareableProvider
from providers.engine_checks import explain_absent_model, find_tool_parser_problem
from providers.model_families import ModelFamily, find_family
from providers.profiles import build_profile
from translation.errors import InvalidRequest
from translation.hygiene.call_tracker import CallRules
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.request_defaults import find_common_defaults

_LIST_PARAM: Final = "models"
"""The parameter in which clients of an upstream that chooses the model list those that may answer."""

_MAX_NAME_CHARS: Final = 100
_MAX_NAMES: Final = 300
"""The number of names that are compared. Some upstreams list thousands, and clients may repeat the request."""

_MIN_SIMILARITY: Final = 0.6
_MAX_SUGGESTIONS: Final = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """A provider and upstream model that can serve a request, with the model's capabilities and profile.

    A plan is made for one target. It is all that planning knows of the model's configuration. What follows from its
    fields alone is found once, for all requests.
    """

    provider: Provider
    capabilities: Capabilities
    upstream_model: str
    profile: Profile
    mcp_servers: Sequence[str] = ()
    """Labels of the servers of `tools.mcp.servers` whose tools are added to each request."""
    added_tools: Sequence[Json] = ()
    """Other tools of the gateway that are added to each request, as tools of the Responses API."""
    realm: frozenset[str] = frozenset()
    """The providers of the account that can read the reasoning that it seals, if they are more than its own."""
    request_defaults: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of requests that other targets of its route do not have."""
    losses: Sequence[Loss] = ()
    """What this target cannot honour of the client's own request, of which the request to plan was made."""
    candidate: Candidate | None = None
    """The state of the upstream, if its turns are shared or limited."""
    compact_threshold: int | None = None
    """The number of tokens above which a context is compacted, for requests without one, if only the upstream knows how
    long a context may be. None if the configuration says it, or nobody."""
    reasoning_seal: ReasoningSeal | None = None
    """Seals reasoning in replies and unseals it in requests. None for chat, and before the owner is known."""
    # What each request reads are fields: reading a cached property takes ten times as long.
    adds_tools: bool = field(init=False)
    """Whether the configuration adds tools to each request, which the gateway runs."""
    relayed_dialects: frozenset[Dialect] = field(init=False)
    """The APIs whose requests may be relayed: those of the upstream, unless the profile changes replies."""
    chooses_model: bool = field(init=False)
    """Whether the upstream may answer with another model than the one that it is asked for."""
    call_rules: CallRules = field(init=False)
    """The rules for the tool calls of relayed replies to requests without earlier calls."""

    def __post_init__(self) -> None:
        profile = self.profile
        dialects: frozenset[Dialect] = frozenset() if _changes_replies(profile) else self.capabilities.dialects
        object.__setattr__(self, "adds_tools", bool(self.mcp_servers or self.added_tools))
        object.__setattr__(self, "relayed_dialects", dialects)
        object.__setattr__(self, "chooses_model", _LIST_PARAM in profile.extra_params)
        object.__setattr__(self, "call_rules", CallRules(max_args_bytes=profile.max_tool_args_bytes))

    @cached_property
    def runs_mcp(self) -> bool:
        """Whether the upstream calls the tools of MCP servers itself, and asks for their approvals."""
        return "mcp" in self.capabilities.hosted_tools

    @cached_property
    def with_summaries(self) -> "Target":
        """The target for requests whose client wants reasoning as a summary."""
        return replace(self, profile=replace(self.profile, reasoning_part="summary_text"))

    @cached_property
    def with_single_calls(self) -> "Target":
        """The target for requests in whose replies there is room for one call."""
        return replace(self, profile=replace(self.profile, max_tool_calls_per_turn=1))

    @cached_property
    def without_drops(self) -> "Target":
        """The target for strict requests, of which the upstream must not drop anything by itself."""
        return replace(self, profile=replace(self.profile, block_binding=False))

    def can_read(self, provider: str, model: str) -> bool:
        """Whether this upstream can use what a model of a provider sealed."""
        return model == self.upstream_model and (provider == self.provider.name or provider in self.realm)

    def with_reasoning_seal(self, sealer: Sealer, owner: str) -> "Target":
        """Returns the target for requests of the Responses API by `owner`."""
        seal = ReasoningSeal(
            sealer,
            owner,
            self.provider.name,
            self.upstream_model,
            "responses" in self.capabilities.dialects,
            self.realm,
        )
        return replace(self, reasoning_seal=seal)


def _changes_replies(profile: Profile) -> bool:
    """Whether the profile parses the text of replies, or adds or removes items, which a relay cannot do.

    A relay separates `leading_think_tags` itself.
    """
    if profile.parsing_format == "think_tags" or profile.two_pass != "off":
        return True
    if profile.tool_parser != "openai" or profile.text_tool_calls != "none":
        return True
    return profile.max_tool_calls_per_turn is not None or bool(profile.fix_empty_final)


_NO_CANDIDATES: Final = TurnCandidates((), ())


@dataclass(frozen=True, kw_only=True)
class Route:
    """What serves requests for the model `name`."""

    name: str
    pattern: str
    """The name or pattern of the configuration that it belongs to."""
    targets: tuple[Target, ...]
    """The targets that can serve it, the first choice first. There is at least one."""
    strict: bool
    must_be_listed: bool = False
    """The name goes to the upstream as the client sent it, and is refused if no upstream that gets turns lists it."""
    resumable: bool = False
    request_defaults: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of requests that all targets have."""
    sharing: Sharing | None = None
    """How turns are shared between the targets; None if there is nothing to choose, to repeat or to limit."""
    candidates: TurnCandidates = _NO_CANDIDATES
    """The upstreams of the targets, if their turns are shared."""
    target: Target = field(init=False)
    """The first choice."""
    log_fields: Mapping[str, str] = field(init=False)
    """What the log line of a request says of its route."""

    def __post_init__(self) -> None:
        target = self.targets[0]
        object.__setattr__(self, "target", target)
        object.__setattr__(
            self, "log_fields", {"model": self.name[:MAX_LOGGED_CHARS], "provider": target.provider.name}
        )

    @property
    def serving_targets(self) -> Sequence[Target]:
        """The targets that may get turns: those with a weight, or all of them if none has one."""
        serving = [each for each in self.targets if each.candidate is None or each.candidate.weight > 0]
        return serving or self.targets

    def find_target(self, index: int) -> Target:
        """Returns the target of a candidate, by the candidate's index."""
        if index < len(self.targets):
            target = self.targets[index]
            if target.candidate is not None and target.candidate.index == index:
                return target  # unless targets were left out before it
        return next(each for each in self.targets if each.candidate is not None and each.candidate.index == index)

    def keep_targets(self, targets: Sequence[Target]) -> "Route":
        """Returns the route with these of its targets, which may have been adjusted."""
        return replace(self, targets=tuple(targets), candidates=_prepare_candidates(targets))

    def find_readers(self, provider: str, model: str) -> list[int]:
        """Returns the indexes of the candidates that can use what a model of a provider sealed, or stored."""
        return [
            each.candidate.index
            for each in self.targets
            if each.candidate is not None and each.candidate.weight > 0 and each.can_read(provider, model)
        ]

    def has_larger_window(self, index: int, other_index: int) -> bool:
        """Whether the context window of a candidate is larger than that of another one, or may be."""
        window = self.find_target(index).capabilities.max_context_window
        other_window = self.find_target(other_index).capabilities.max_context_window
        return window is None or other_window is None or window > other_window

    def with_reasoning_seal(self, sealer: Sealer, owner: str) -> "Route":
        """Returns the route for requests of the Responses API by `owner`."""
        return replace(self, targets=tuple(target.with_reasoning_seal(sealer, owner) for target in self.targets))


def _prepare_candidates(targets: Iterable[Target]) -> TurnCandidates:
    return prepare_candidates(target.candidate for target in targets if target.candidate is not None)


_MAX_CACHED = 256
"""The number of routes that are cached. A pattern can match any name that a client sends, so the cache is bounded."""

_MAX_CACHED_CHARS = 200
"""Routes of longer names are not cached, for the same reason."""


class Resolver:
    """Resolves names against the configured models in order. The first model whose pattern matches wins."""

    def __init__(
        self, settings: Settings, providers: Mapping[str, Provider], registry: UpstreamRegistry | None = None
    ) -> None:
        """`registry` holds the state of the upstreams, which outlives the configuration."""
        registry = registry or UpstreamRegistry()
        counted = _find_counted_providers(settings)
        self._rows = [
            ServedName(pattern, model, settings, providers, registry, counted)
            for pattern, model in settings.models.items()
        ]
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

    def list_rows(self) -> "Sequence[ServedName]":
        """Returns the configured models in the order of the config."""
        return self._rows


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class ServedName:
    """A name or pattern of the configuration, and the upstreams that serve it."""

    def __init__(
        self,
        pattern: str,
        model: ModelConfig,
        settings: Settings,
        providers: Mapping[str, Provider],
        registry: UpstreamRegistry,
        counted: Collection[str] = (),
    ) -> None:
        """`counted` are the providers whose turns in progress have to be counted."""
        self.pattern = pattern
        self.is_exact = not any(mark in pattern for mark in "*?[")
        self._model = model
        rows = model.rows
        self._sharing = _find_sharing(pattern, model, settings, registry, counted)
        self._request_defaults = find_common_defaults([row.request_defaults for row in rows])
        counts = Counter(row.provider for row in rows)
        self.upstreams = [
            _ServingUpstream(
                row,
                settings,
                providers[row.provider],
                registry,
                self._sharing,
                label=f"{row.provider}:{row.model or pattern}" if counts[row.provider] > 1 else row.provider,
            )
            for row in rows
        ]
        weighted = [each for each, row in zip(self.upstreams, rows, strict=True) if row.weight > 0]
        self._serving = weighted or self.upstreams

    @property
    def is_shared(self) -> bool:
        """Whether its turns are shared between upstreams."""
        return self._sharing is not None and self._sharing.repeats

    @property
    def has_own_models(self) -> bool:
        """Whether its upstreams get the same models whatever name a client sends."""
        return self.is_exact or all(row.model is not None for row in self._model.rows)

    @property
    def provider(self) -> Provider:
        """The provider of the first upstream."""
        return self.upstreams[0].provider

    @property
    def serving_providers(self) -> Sequence[Provider]:
        """The providers of the upstreams that may get turns."""
        return list({upstream.provider.name: upstream.provider for upstream in self._serving}.values())

    def list_healths(self) -> list[tuple[str, Sequence[UpstreamHealth]]]:
        """Returns the labels of the upstreams, and what is known of each: of a pattern that of all its names."""
        return [
            (upstream.label, upstream.list_healths(self.pattern, is_exact=self.is_exact)) for upstream in self.upstreams
        ]

    def build_route(self, name: str) -> Route:
        targets = [
            replace(
                upstream.build_target(index, name, self._request_defaults),
                mcp_servers=self._model.tools.mcp,
                added_tools=self._model.tools.list_added_tools(),
            )
            for index, upstream in enumerate(self.upstreams)
        ]
        return Route(
            name=name,
            pattern=self.pattern,
            targets=tuple(targets),
            candidates=_prepare_candidates(targets),
            strict=self._model.strict,
            must_be_listed=not self.is_exact and all(upstream.lists_names for upstream in self._serving),
            resumable=self._model.resumable,
            request_defaults=self._request_defaults,
            sharing=self._sharing,
        )


def _find_counted_providers(settings: Settings) -> Collection[str]:
    """Returns the providers whose turns in progress have to be counted: those with a limit, and those that share turns
    with others."""
    shared = {row.provider for model in settings.models.values() if model.upstreams is not None for row in model.rows}
    return shared | {name for name, config in settings.providers.items() if config.max_in_flight is not None}


def _find_sharing(
    pattern: str, model: ModelConfig, settings: Settings, registry: UpstreamRegistry, counted: Collection[str]
) -> Sharing | None:
    """Returns how the turns of a name are shared; None for one provider that nobody counts.

    With one provider a turn waits for the provider's limit, is counted, and goes its way as if it were not.
    """
    routing = settings.routing.for_model(model.routing)
    if model.upstreams is not None:
        return Sharing(pattern, model.balance, model.affinity, routing, registry.find_name(pattern))
    if model.rows[0].provider not in counted:
        return None
    unbounded = routing.model_copy(update={"first_content_s": None, "total_s": None})
    return Sharing(pattern, model.balance, "none", unbounded, registry.find_name(pattern), repeats=False)


def _find_realm(provider: str, settings: Settings) -> frozenset[str]:
    """Returns the providers of the same account, if there are several."""
    realm = settings.providers[provider].realm
    members = {name for name, config in settings.providers.items() if (config.realm or name) == (realm or provider)}
    return frozenset(members) if len(members) > 1 else frozenset()


class _ServingUpstream:
    """One upstream of a name or pattern, whose turns are shared as `sharing` says.

    `label` is its name in headers, figures and lines of the log: nothing in it is of a client.
    """

    def __init__(
        self,
        row: UpstreamRow,
        settings: Settings,
        provider: Provider,
        registry: UpstreamRegistry,
        sharing: Sharing | None,
        *,
        label: str,
    ) -> None:
        self.provider = provider
        self._row = row
        self._registry = registry
        self._sharing = sharing
        self.label = label
        self._families = settings.model_families
        self._provider_config = settings.providers[row.provider]
        self._realm = _find_realm(row.provider, settings)
        self._capabilities = row.resolve_capabilities(provider.capabilities)
        self.lists_names = (
            row.model is None and self._capabilities.models and self._provider_config.unlisted_models == "refuse"
        )
        """Whether the names that a pattern matches are those that it lists, and no others."""
        self._profiles: dict[str | None, Profile] = {}
        if sharing is not None and sharing.repeats and isinstance(provider, ShareableProvider):
            reports_load = self._provider_config.find_load_report() == "orca"
            observe_head = registry.observe_heads_of(row.provider)
            self.provider = provider.share(observe_head, LOAD_REQUEST if reports_load else {})

    def build_target(self, index: int, name: str, common_defaults: Mapping[str, Any]) -> Target:
        """Returns the target for a name. `index` is the place of the row. `common_defaults` are those of all rows."""
        row = self._row
        upstream_model = row.model or name
        # An engine runs the weights that it loads. The other names are only labels.
        loaded_model = self._provider_config.model
        names = (upstream_model, name) if loaded_model is None else (loaded_model, upstream_model, name)
        candidate = None
        if self._sharing is not None:
            state_name = UpstreamName(row.provider, upstream_model)
            candidate = self._registry.build_candidate(index, state_name, self.label, row.weight, row.tier)
            if not self._sharing.repeats:
                candidate = replace(candidate, health=self._registry.build_health(state_name))
        return Target(
            provider=self.provider,
            capabilities=self._capabilities,
            upstream_model=upstream_model,
            profile=self._build_profile(row.profile or find_family(names, self._families)),
            realm=self._realm,
            request_defaults={key: value for key, value in row.request_defaults.items() if key not in common_defaults},
            candidate=candidate,
        )

    def list_healths(self, pattern: str, *, is_exact: bool) -> Sequence[UpstreamHealth]:
        """Returns what is known of its models: of one, or of all that clients asked for by a `pattern`."""
        row = self._row
        if row.model is None and not is_exact:
            return self._registry.list_healths(row.provider, pattern)
        return [self._registry.find_upstream(UpstreamName(row.provider, row.model or pattern))]

    def _build_profile(self, name: str | None) -> Profile:
        """Returns the profile of this row's models of one family. `name` is None for models of an unknown family."""
        if (profile := self._profiles.get(name)) is None:
            kind = self._provider_config.type
            family = None if name is None else self._families[name]
            if family is not None:
                family = self._without_missing_parser(family)
            overrides = self._row.build_profile_overrides(self._families)
            profile = build_profile(kind, overrides, family, base_url=self._provider_config.base_url)
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
