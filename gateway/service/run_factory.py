"""Plans requests, and makes the runs that produce their replies."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeAlias

from gateway.config.settings import Settings
from gateway.http.auth import Principal
from gateway.http.large_bodies import LargeBodyPool
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.plan import RelayPlan, TranslationPlan, make_plan, require_no_loss, set_tool_options
from gateway.planning.resolver import Route, Target
from gateway.planning.target_facts import find_makers, find_prefix_key
from gateway.replies.endpoints import Endpoint, Presentation, TargetPresentation
from gateway.replies.observers import LOG_OBSERVER, Observer, RequestObserver
from gateway.replies.request_figures import RequestDescription, RequestFigures
from gateway.sealing.reply_seal import ReplyItemSeal
from gateway.service.admission import rename_param_of
from gateway.service.provider_lifetimes import ProviderHold
from gateway.service.run import Attempt, Run
from gateway.service.sharing.shared_attempts import SharedAttempts
from gateway.service.sharing.shared_rounds import SharedRounds
from gateway.tools.host import ToolHost
from gateway.upstreams.affinity import AffinityFacts, find_affinity_key
from gateway.upstreams.registry import Sharing
from gateway.upstreams.shared_turn import SharedTurn
from providers.redaction import Redactor
from translation.errors import InvalidRequest, Unrepresentable
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES
from translation.lowering.input_files import FilesNeeded
from translation.representation.json_types import Json
from translation.representation.profile import Profile
from translation.request_facts import RequestFacts

_MB: Final = 1024 * 1024

_MAX_TARGETS: Final = 1024
"""The most targets of which it is kept how their replies are presented."""


FindToolHost: TypeAlias = Callable[[Endpoint, RequestFacts, Target, Principal, ToolHost | None], ToolHost | None]
"""Returns the host of the tools of a request that a target does not run: see `Admission.find_tool_host`."""

Replan: TypeAlias = Callable[[Target], AdmittedRequest]
"""Returns the request as it is planned for a target."""

EchoBody: TypeAlias = Callable[[Json, Profile], Json]
"""Returns a client's body, which has the defaults of a target, as a reply by the profile of that target echoes it."""


class RunFactory:
    """Plans requests. There is one per configuration, and every run keeps its `provider_hold`."""

    def __init__(
        self,
        settings: Settings,
        provider_hold: ProviderHold | None = None,
        observer: Observer = LOG_OBSERVER,
        find_tool_host: FindToolHost | None = None,
        pool: LargeBodyPool | None = None,
    ) -> None:
        """`find_tool_host` finds the host of a request's tools for another target than it was accepted for. `pool` is
        for requests whose bodies are heavy."""
        self.pool: Final = pool or LargeBodyPool()
        self._observer = observer
        self._find_tool_host = find_tool_host
        self._names_upstreams = settings.routing.reply_headers
        self._provider_hold = provider_hold
        self._max_frame_bytes = {name: int(config.max_line_mb * _MB) for name, config in settings.providers.items()}
        self._reasoning_fields = frozenset(settings.server.reasoning_fields)
        self._buffers_sentences = settings.server.sentence_buffer
        self._reports_tools = settings.tools.events
        self._clock: Callable[[], int] = lambda: int(time.time())
        # Targets are made once for all requests for a name. A method would refer back to this object, whose providers
        # are closed once nothing refers to it.
        build_common = partial(_build_common, self._reasoning_fields, self._max_frame_bytes, self._clock)
        self._find_common = lru_cache(_MAX_TARGETS)(build_common)

    def build_run(
        self,
        request: AdmittedRequest,
        echo: EchoBody | None = None,
        *,
        planned: AdmittedRequest | None = None,
        replan: Replan | None = None,
        is_stored: bool = False,
        is_job: bool = False,
        weight: int = 0,
    ) -> Run:
        """Returns the run of a request. `echo` returns the body that its reply echoes, if it is not the request's.

        `planned` is the request for the upstream, if it is another one: with the history as its input, or without
        parameters that the gateway has. `replan` makes it again for another target; by default it only differs in its
        target. `weight` is that of the body and its history: heavy ones are planned again in a thread. The run is
        planned for the target that would be asked now. Raises the refusal of the first target if none can serve the
        request: InvalidRequest; StoreUnavailable; and FilesNeeded, after which the same request is planned again.
        """
        planned = planned or request
        sharing = request.route.sharing
        observer = self._observer.observe_request(
            request.endpoint.name,
            request.route.pattern,
            streams=request.facts.streams,
            is_shared=sharing is not None,
            is_job=is_job,
        )
        if isinstance(observer, RequestFigures) and observer.trace is not None:
            state = request.facts.state
            description = RequestDescription(request.identity.id, state.conversation_id, request.body)
            observer.trace.describe(description)
        if sharing is None:
            view = request.body if echo is None else echo(request.body, request.target.profile)
            try:
                attempt = self._plan_attempt(request, planned, view, is_stored=is_stored)
            except FilesNeeded:
                _await_second_plan(observer)
                raise
            run = Run(request, attempt, observer, self._provider_hold, names_upstream=self._names_upstreams)
            if is_job and isinstance(observer, RequestFigures):
                run.figures = observer
            return run
        planner = _TargetPlanner(self, request, planned, echo, replan, is_stored, weight)
        turn = self._begin_turn(request, planned, sharing)
        try:
            attempt, index = _plan_first(turn, planner, request.route)
        except FilesNeeded:
            _await_second_plan(observer)
            raise
        attempts = SharedAttempts(request.route, turn, index, observer)
        run = Run(
            request,
            attempt,
            attempts,
            self._provider_hold,
            attempts,
            planner.plan_next,
            names_upstream=self._names_upstreams,
        )
        if is_job and isinstance(observer, RequestFigures):
            run.figures = observer
        attempts.planner = run
        if planned.facts.state.has_lasting_ids:
            attempts.keeper = request.owner
        if (loop_io := run.loop_io) is not None:
            attempts.rounds = rounds = SharedRounds(
                request.route,
                turn,
                attempt,
                planner.plan_next,
                observer,
                holds_all=not (request.facts.streams or request.in_background),
            )
            loop_io.share_round = rounds.share_round
        return run

    def _begin_turn(self, request: AdmittedRequest, planned: AdmittedRequest, sharing: Sharing) -> SharedTurn:
        """Returns the turn of a request, with the upstreams that may serve it. Raises StoreUnavailable."""
        facts, candidates = request.facts, request.route.candidates
        affinity_facts = AffinityFacts(facts.cache_key, facts.state.conversation_id, planned.chain_root)
        key = None if sharing.affinity == "none" else planned.affinity_key
        if key is None:
            key = find_affinity_key(sharing.affinity, request.headers, affinity_facts, request.owner)
        if key is None and sharing.balance == "prefix" and len(request.route.targets) > 1:
            key = find_prefix_key(planned)
        turn = SharedTurn(sharing, candidates, key)
        if (previous_id := planned.facts.state.previous_id) is not None:  # an upstream has what it continues
            maker = sharing.state.makers.find_maker(request.owner, previous_id)
            if maker is not None and (readers := request.route.find_readers(*maker)):
                turn.keep_only(readers)
                return turn
        may_have_maker = request.endpoint.reply.carries_seals or not isinstance(facts.input_value, str)
        if may_have_maker and len(request.route.targets) > 1 and (makers := find_makers(planned)):
            turn.keep_only(makers)
        return turn

    def plan_for(
        self,
        request: AdmittedRequest,
        planned: AdmittedRequest,
        target: Target,
        echo: EchoBody | None,
        *,
        is_stored: bool,
    ) -> Attempt:
        """Returns the plan of a request for one of the targets that share its turns."""
        view = request.body
        if target.request_defaults:
            view = planned.endpoint.request.add_defaults(view, target.request_defaults)
            planned = _add_target_defaults(planned, target)
        if echo is not None:
            view = echo(view, target.profile)
        if self._find_tool_host is not None and (planned.facts.tools.hosted or target.adds_tools):
            host = self._find_tool_host(planned.endpoint, planned.facts, target, planned.principal, planned.tool_host)
            planned = replace(planned, tool_host=host)
            _require_own_approvals(planned)
        if target is not planned.target:
            planned = planned.with_target(target)
        return self._plan_attempt(request, planned, view, is_stored=is_stored)

    def _plan_attempt(
        self, request: AdmittedRequest, planned: AdmittedRequest, view: Json, *, is_stored: bool
    ) -> Attempt:
        try:
            plan = make_plan(planned, buffers_sentences=self._buffers_sentences)
        except InvalidRequest as error:
            if not request.param_names:
                raise
            raise rename_param_of(error, request.param_names) from None
        if planned.tool_host is not None:
            tools = request.facts.tools
            reports = tools.reports_events or self._reports_tools
            set_tool_options(request.endpoint, plan, reports_events=reports, takes_input=tools.takes_input)
        target, credentials = planned.target, planned.facts.tools.credentials
        if request.losses or request.param_names or target.losses:
            # The plan may add losses to this list while it runs, so the list itself stays.
            plan.losses[:] = [*request.rename_losses(plan.losses), *target.losses]
            require_no_loss([*request.losses, *target.losses], strict=request.is_strict)
        presentation = self._build_presentation(request.route, target, plan, credentials, is_stored=is_stored)
        if target.reasoning_seal is not None:
            carries_seals = request.endpoint.reply.carries_seals or request.facts.wants_sealed_reasoning
            presentation.item_seal = ReplyItemSeal(target.reasoning_seal, carries_seals)
        if planned.hides_thinking:
            presentation.hides_thinking = True
        return Attempt(target, plan, presentation, view)

    def _build_presentation(
        self,
        route: Route,
        target: Target,
        plan: RelayPlan | TranslationPlan,
        credentials: Sequence[str],
        *,
        is_stored: bool,
    ) -> Presentation:
        """Returns how the reply of a target is presented. `credentials` are those of the request's tools."""
        redact: Callable[[str], str] = target.provider.redact
        if route.sharing is not None:
            redact = _find_shared_redact(route, redact, plan)
        if credentials:
            redact = build_redactor(credentials, redact)
        presentation = Presentation(self._find_common(target, route.name), is_stored, redact)
        if isinstance(plan, RelayPlan):
            presentation.call_rules, presentation.summarizes_reasoning = plan.call_rules, plan.summarizes_reasoning
        return presentation


def _build_common(
    reasoning_fields: frozenset[str],
    max_frame_bytes: Mapping[str, int],
    clock: Callable[[], int],
    target: Target,
    route_name: str,
) -> TargetPresentation:
    """Returns what the replies of a target have in common. `max_frame_bytes` are those of the providers."""
    return TargetPresentation(
        reasoning_fields,
        max_frame_bytes.get(target.provider.name, DEFAULT_MAX_FRAME_BYTES),
        clock,
        None if route_name == target.upstream_model else route_name,
        target.profile,
    )


def _find_shared_redact(
    route: Route, redact: Callable[[str], str], plan: RelayPlan | TranslationPlan
) -> Callable[[str], str]:
    """Returns the function that redacts what upstreams say. Each round of tools may have another one."""
    if isinstance(plan, RelayPlan) or plan.loop_io is None:
        return redact

    def redact_all(message: str) -> str:
        for each in route.targets:
            message = each.provider.redact(message)
        return message

    return redact_all


class _TargetPlanner(NamedTuple):
    """Plans one request for any target of its route."""

    runs: RunFactory
    request: AdmittedRequest
    planned: AdmittedRequest
    echo: EchoBody | None
    replan: Replan | None
    is_stored: bool
    weight: int

    def plan_target(self, target: Target) -> Attempt:
        """Returns the plan for a target. Raises InvalidRequest if it cannot serve the request, and StoreUnavailable."""
        planned = self.planned
        if self.replan is not None and target is not planned.target:
            planned = self.replan(target)
        return self.runs.plan_for(self.request, planned, target, self.echo, is_stored=self.is_stored)

    async def plan_next(self, target: Target) -> Attempt:
        """Returns the plan for a target of a further attempt, off the event loop if the body is heavy.

        Raises what `plan_target` raises.
        """
        pool = self.runs.pool
        if self.weight <= pool.free_weight:
            return self.plan_target(target)
        return await pool.call_weighed(self.weight, self.plan_target, target)


def _await_second_plan(observer: RequestObserver) -> None:
    """Keeps the figures of a request for its second plan: the first one has found that it names files."""
    if isinstance(observer, RequestFigures):
        observer.is_planned_again = True


def _plan_first(turn: SharedTurn, planner: _TargetPlanner, route: Route) -> tuple[Attempt, int]:
    """Returns the plan for the target that would be asked now, and its place. Targets that refuse are excluded.

    Raises the refusal of the first target if none is left.
    """
    refusals: dict[int, InvalidRequest] = {}
    while (candidate := turn.propose()) is not None:
        try:
            return planner.plan_target(route.find_target(candidate.index)), candidate.index
        except InvalidRequest as refusal:
            refusals[candidate.index] = refusal
            turn.exclude(candidate.index)
    raise refusals[min(refusals)]


def _require_own_approvals(planned: AdmittedRequest) -> None:
    """Raises InvalidRequest if others have asked for the approvals in the input of a request than those who would run
    its tools: the gateway, if the request has a host of tools, or else the upstream."""
    if planned.tool_host is not None and planned.approval_refusal is not None:
        raise planned.approval_refusal
    if planned.tool_host is None and planned.approvals is not None and not planned.approvals.answers.is_empty:
        raise Unrepresentable("another upstream was to make the calls that the input approves", param="input")


def _add_target_defaults(planned: AdmittedRequest, target: Target) -> AdmittedRequest:
    """Returns the request with the defaults that only this target has. Raises InvalidRequest."""
    form, facts = planned.endpoint.request, planned.facts
    hides_thinking = planned.hides_thinking
    if form.expects_thinking is not None and not form.expects_thinking(planned.body):
        hides_thinking = True
    body = form.add_defaults(planned.body, target.request_defaults)
    (form.validate_merged or form.validate)(body)
    own = form.read_facts(body)
    if not form.own_params.isdisjoint(body):
        body = form.remove_own_params(body)
    facts = replace(
        own,
        streams=facts.streams,
        state=facts.state,
        tools=facts.tools,
        input_value=facts.input_value,
        wants_sealed_reasoning=facts.wants_sealed_reasoning,
        cache_key=facts.cache_key,
    )
    return replace(planned, body=body, facts=facts, hides_thinking=hides_thinking)


def build_redactor(credentials: Sequence[str], redact: Callable[[str], str]) -> Callable[[str], str]:
    """Returns the function that redacts an upstream's message about a request.

    Such a message may quote credentials of the request's tools, and of the provider, which `redact` removes.
    """
    if not credentials:
        return redact
    redactor = Redactor(credentials)
    return lambda message: redactor.redact(redact(message))
