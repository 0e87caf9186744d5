"""Explains where the turns of a name go: the state of its upstreams, and what each could do with one request."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from gateway.config.settings import Settings
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.plan import make_plan
from gateway.planning.resolver import Resolver, Route, ServedName, Target
from gateway.planning.target_facts import find_makers, find_prefix_key
from gateway.service.admission import Admission, ClientRequest
from gateway.upstreams.affinity import AffinityFacts, AffinityKey, find_affinity_key
from gateway.upstreams.health import UpstreamHealth, UpstreamName
from gateway.upstreams.registry import Sharing, UpstreamRegistry
from gateway.upstreams.routing_report import UpstreamFacts, build_routing_report, find_unavailable
from translation.errors import InvalidRequest
from translation.representation.json_types import Json

_MAX_NAMES: Final = 64
"""The number of names that are examined for a pattern, the newest."""

_OTHER_MAKER = "another upstream made the reasoning in the input"


class RoutingReporter:
    """Reports on the names of one configuration."""

    def __init__(
        self, settings: Settings, resolver: Resolver, admission: Admission, registry: UpstreamRegistry
    ) -> None:
        self._settings = settings
        self._resolver = resolver
        self._admission = admission
        self._registry = registry

    def report(self, model: str, allowed: Sequence[str] = ("*",), *, is_live: bool = True) -> Json:
        """Returns the report on a name that a pattern of `allowed` matches. Raises UnknownModel."""
        route = self._resolver.resolve(model, allowed)
        return self._build(route, [self._describe(target) for target in route.targets], None, is_live=is_live)

    async def report_request(self, client_request: ClientRequest, *, is_live: bool = True) -> Json:
        """Returns the report on the name of a request, with what each upstream could do with it.

        Raises InvalidRequest and UnknownModel.
        """
        admission = self._admission
        request = await admission.admit(client_request)
        host = await admission.open_tool_host(request.endpoint, request.facts, request.route, request.principal)
        request.tool_host = host
        makers = find_makers(request)
        upstreams = [self._examine(request, target, makers) for target in request.route.targets]
        return self._build(request.route, upstreams, self._find_key(request), is_live=is_live)

    def find_unavailable_names(self) -> list[str]:
        """Returns the names and patterns with several upstreams of which none is available."""
        now = self._registry.clock()
        return [row.pattern for row in self._resolver.list_rows() if self._is_unavailable(row, now)]

    def _is_unavailable(self, row: ServedName, now: float) -> bool:
        """Whether no name of a row has an available upstream. Of a pattern those count that clients have asked for."""
        if not row.is_shared:
            return False
        names = [row.pattern]
        if not row.has_own_models:
            known = (name for name in self._registry.list_models() if name != row.pattern)
            names = [name for name in known if fnmatchcase(name, row.pattern)]
        routes = {name: row.build_route(name) for name in names[-_MAX_NAMES:]}
        candidates = {
            name: [target.candidate for target in route.targets if target.candidate is not None]
            for name, route in routes.items()
        }
        return bool(candidates) and len(find_unavailable(candidates, now)) == len(candidates)

    def list_healths(self) -> Mapping[str, Sequence[tuple[str, Sequence[UpstreamHealth]]]]:
        """Returns the names and patterns that share turns, with their upstreams and what is known of each."""
        return {row.pattern: row.list_healths() for row in self._resolver.list_rows() if row.is_shared}

    def _build(self, route: Route, upstreams: list[UpstreamFacts], key: AffinityKey | None, *, is_live: bool) -> Json:
        sharing = route.sharing or Sharing(
            route.name, "least_busy", "none", self._settings.routing, self._registry.find_name(route.name), False
        )
        return build_routing_report(route.name, sharing, upstreams, key, self._registry.clock() if is_live else None)

    def _describe(self, target: Target) -> UpstreamFacts:
        candidate = target.candidate
        name = target.provider.name
        if candidate is None:  # a name with one provider has no state of its own
            candidate = self._registry.build_candidate(0, UpstreamName(name, target.upstream_model), name, 1.0, 0)
        return UpstreamFacts(name, target.upstream_model, candidate)

    def _examine(self, request: AdmittedRequest, target: Target, makers: Sequence[int]) -> UpstreamFacts:
        facts = self._describe(target)
        if makers and facts.candidate.index not in makers:
            return facts._replace(refusal=_OTHER_MAKER)
        planned = request.with_target(target)
        if planned.facts.tools.hosted or target.adds_tools:
            host = self._admission.find_tool_host(
                planned.endpoint, planned.facts, target, planned.principal, planned.tool_host
            )
            planned.tool_host = host
        try:
            plan = make_plan(planned)
        except InvalidRequest as refusal:
            return facts._replace(refusal=f"{refusal.param}: {refusal.message}" if refusal.param else refusal.message)
        return facts._replace(losses=[str(loss) for loss in plan.losses])

    def _find_key(self, request: AdmittedRequest) -> AffinityKey | None:
        sharing = request.route.sharing
        if sharing is None:
            return None
        state = request.facts.state
        facts = AffinityFacts(request.facts.cache_key, state.conversation_id)
        key = find_affinity_key(sharing.affinity, request.headers, facts, request.owner)
        return find_prefix_key(request) if key is None and sharing.balance == "prefix" else key
