"""Produces the reply of a planned request, as a stream or as one JSON object. It does not store it."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.config.settings import Settings
from gateway.error_replies import build_failed_event
from gateway.errors import TurnFailed
from gateway.planning.plan import RelayPlan, TranslationPlan, make_plan, require_no_loss, set_tool_options
from gateway.planning.plan_input import AdmittedRequest, PlanInput
from gateway.planning.resolver import Target
from gateway.replies.attempted_reply import AttemptedReply
from gateway.replies.client_params import OverflowParams
from gateway.replies.endpoints import Endpoint, Presentation, ReplyCollector, ReplyIdentity
from gateway.replies.event_stream import ReplyStream
from gateway.replies.loss_header import (
    LOSS_HEADER,
    build_warning_losses,
    collect_facts,
    collect_unreported,
    collect_warnings,
    find_final_usage,
    read_reply_warnings,
    render_loss_header,
)
from gateway.replies.obfuscation import ObfuscatingEncoder, ObfuscatingRelay
from gateway.replies.observers import LOG_OBSERVER, Observer, ReplyEnd, RequestObserver
from gateway.replies.reply_streams import RelayedReply, TranslatedReply
from gateway.sealing.reply_seal import ReplyItemSeal
from gateway.service.admission import rename_param_of
from gateway.service.provider_lifetimes import ProviderHold
from gateway.tools.loop_io import LoopIO
from providers.base import Batch, HeaderedReply, batch_source_of
from providers.errors import ProviderError
from providers.redaction import Redactor
from translation.errors import InvalidRequest
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES
from translation.hosted.interruptions.sent_output import HOSTED_CALL_TYPES
from translation.hygiene.call_tracker import DEFAULT_RULES
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.request_facts import RequestFacts

_MB: Final = 1024 * 1024


class Attempt(NamedTuple):
    """One way to produce the reply to a request: the plan for one target."""

    target: Target
    plan: RelayPlan | TranslationPlan
    presentation: Presentation


_NO_ATTEMPTS: Final[Iterator[Attempt]] = iter(())


@dataclass(slots=True)
class Run:
    """One response being produced: the client's body, and the plan by which it is served."""

    endpoint: Endpoint
    body: Json
    """The body as the reply echoes it."""
    facts: RequestFacts
    """The facts of the client's request."""
    owner: str
    identity: ReplyIdentity
    attempt: Attempt
    """The attempt in progress."""
    observer: RequestObserver
    provider_hold: ProviderHold | None = None
    """Keeps the plan's provider open until the reply has ended."""
    further_attempts: Iterator[Attempt] = field(default=_NO_ATTEMPTS)
    """The attempts at the other targets, which are planned when they are needed."""
    attempt_count: int = field(default=1, init=False)
    late_losses: list[Loss] = field(default_factory=list, init=False)
    """Losses that are known only when a JSON reply is complete: tool calls with a warning, and missing results."""
    _collector: ReplyCollector | None = field(default=None, init=False)
    """Collects the JSON reply of a run that calls tools."""

    @property
    def plan(self) -> RelayPlan | TranslationPlan:
        """The plan of the attempt in progress."""
        return self.attempt.plan

    @property
    def presentation(self) -> Presentation:
        return self.attempt.presentation

    def build_stream(self) -> ReplyStream:
        """Returns the reply as a stream. The plan's exchange is used, so only one reply can be produced."""
        if self.further_attempts is _NO_ATTEMPTS:
            return self._build_attempt_stream()
        return AttemptedReply(self._build_attempt_stream, self._begin_next_attempt)

    def _build_attempt_stream(self) -> ReplyStream:
        target, plan, presentation = self.attempt
        self.observer.observe_attempt(target.provider.name, self.attempt_count)
        if isinstance(plan, RelayPlan):
            relay = plan.relay.make_relay(self.body, self.identity, presentation)
            if self.facts.is_obfuscated:
                relay = ObfuscatingRelay(relay)
            return RelayedReply(plan.exchange, relay, self.provider_hold, self._overflow_params, self.observer)
        encoder = self.endpoint.reply.encoder(self.body, self.identity, presentation)
        if self.facts.is_obfuscated:
            encoder = ObfuscatingEncoder(encoder)
        return TranslatedReply(
            plan.exchange,
            plan.event_stage,
            encoder,
            plan.params,
            self.provider_hold,
            self._overflow_params,
            self.observer,
        )

    def _begin_next_attempt(self, error: ProviderError) -> bool:
        """Makes the next target's attempt the one in progress, if there is one and the failure is not the request's.

        A response whose tools may have run is not attempted again.
        """
        if not error.retryable or self.loop_io is not None:
            return False
        attempt = next(self.further_attempts, None)
        if attempt is None:
            return False
        self.attempt = attempt
        self.attempt_count += 1
        self.late_losses.clear()  # those of an attempt whose reply nobody gets
        self._collector = None
        return True

    async def produce_reply(self) -> Json:
        """Produces the reply as one JSON object: the same events as a stream, collected.

        Raises TurnFailed, ProviderError, and InvalidRequest with the client's parameter name.
        """
        while True:
            self.observer.observe_attempt(self.attempt.target.provider.name, self.attempt_count)
            try:
                return await self._collect_reply()
            except (ProviderError, TurnFailed) as error:
                if isinstance(error, ProviderError) and self._begin_next_attempt(error):
                    continue
                self._overflow_params.name_param_of(error)
                raise

    def fail_reply(self, error: Exception) -> Json | None:
        """Returns the failed JSON reply, with its content until `error` ended it; None if it had called no tool.

        Its tool calls cannot be undone, so the reply reports them.
        """
        if self._collector is None:
            return None
        if self._collector.failed is None:
            self._collector.feed([build_failed_event(error)])
        reply = self._collector.result()
        return reply if any(item["type"] in HOSTED_CALL_TYPES for item in reply.get("output", ())) else None

    @property
    def loop_io(self) -> LoopIO | None:
        """The state of hosted tools; None if the gateway runs no tools while it produces the reply."""
        return self.plan.loop_io if isinstance(self.plan, TranslationPlan) else None

    @property
    def streams(self) -> bool:
        """Whether the client asked for a stream."""
        return self.facts.streams

    @property
    def _overflow_params(self) -> OverflowParams:
        return OverflowParams(self.endpoint.param_names)

    def _collect_reply(self) -> Awaitable[Json]:
        plan = self.plan
        return self._relay_reply(plan) if isinstance(plan, RelayPlan) else self._translate_reply(plan)

    async def _relay_reply(self, plan: RelayPlan) -> Json:
        usage: Usage | None = None
        warnings: Sequence[Json] = ()
        failed: Failed | None = None
        try:
            answer = await plan.exchange.fetch_body()
            if isinstance(answer, bytes):
                answer = plan.relay.collect_stream(self.body, answer, self.identity, self.presentation)
            elif isinstance(reported := answer.get("usage"), dict):
                usage = plan.relay.read_usage(reported)
            reply = plan.relay.build_json(self.body, answer, self.identity, self.presentation)
            warnings = read_reply_warnings(reply)
            return reply
        except TurnFailed as error:
            failed = error.failed
            raise
        finally:
            self._record_end(ReplyEnd(usage, warnings, failed=failed))

    async def _translate_reply(self, plan: TranslationPlan) -> Json:
        exchange, event_stage = plan.exchange, plan.event_stage
        collector = self.endpoint.reply.collector(self.body, self.identity, self.presentation)
        self._collector = collector if plan.loop_io is not None else None
        usage: Usage | None = None
        facts: list[Json] = []

        def collect(batch: Batch) -> None:
            nonlocal usage
            events = batch if event_stage is None else event_stage.feed(batch)
            facts.extend(collect_facts(events))
            usage = find_final_usage(events) or usage
            collector.feed(events)

        try:
            await batch_source_of(exchange).feed_to(collect)
        except InvalidRequest as error:
            if plan.params is not None:
                plan.params.rename_param_of(error)
            raise
        finally:
            warnings, unreported = (collect_warnings(facts), collect_unreported(facts)) if facts else ((), ())
            self._record_end(ReplyEnd(usage, warnings, unreported, collector.failed))
        if collector.failed is not None:
            raise TurnFailed(collector.failed)
        return collector.result()

    def _record_end(self, end: ReplyEnd) -> None:
        """Records what the end of a JSON reply says of it, as observations and as losses."""
        self.observer.observe_end(end)
        if end.warnings:
            self.late_losses += build_warning_losses(end.warnings)
        if end.unreported:
            self.late_losses += [Loss(param, "not reported") for param in end.unreported]

    def build_loss_headers(self) -> dict[str, str]:
        """Returns the header `x-gateway-loss` with the losses known so far; empty if there are none."""
        losses = [*self.plan.losses, *self.late_losses] if self.late_losses else self.plan.losses
        return render_loss_header(losses) if losses else {}

    def build_late_headers(self) -> dict[str, str]:
        """Returns the headers that are known once the upstream has replied: losses, and headers that are relayed."""
        if not self.endpoint.reply.relays_headers or not isinstance(self.plan.exchange, HeaderedReply):
            return self.build_loss_headers()
        return {**self.build_loss_headers(), **self.plan.exchange.reply_headers}

    @property
    def has_late_headers(self) -> bool:
        """Whether more headers may become known after the reply was planned.

        Whether input was truncated is known once the upstream has accepted the shorter input, and which tools exist
        once their servers have listed them.
        """
        if self.facts.context.is_truncated or self.loop_io is not None:
            return True
        return self.endpoint.reply.relays_headers and isinstance(self.plan, RelayPlan)

    def render_losses(self) -> str | None:
        """Returns the value of `x-gateway-loss` to store with the response; None if there are no losses."""
        return self.build_loss_headers().get(LOSS_HEADER)


class RunFactory:
    """Plans requests, and makes the runs that produce their replies. There is one per configuration.

    Every run keeps `provider_hold`.
    """

    def __init__(
        self, settings: Settings, provider_hold: ProviderHold | None = None, observer: Observer = LOG_OBSERVER
    ) -> None:
        self._observer = observer
        self._provider_hold = provider_hold
        self._max_frame_bytes = {name: int(config.max_line_mb * _MB) for name, config in settings.providers.items()}
        self._reasoning_fields = frozenset(settings.server.reasoning_fields)
        self._buffers_sentences = settings.server.sentence_buffer
        self._reports_tools = settings.tools.events
        self._clock: Callable[[], int] = lambda: int(time.time())

    def build_run(self, admitted: AdmittedRequest, planned: PlanInput, view: Json, *, is_stored: bool = False) -> Run:
        """Returns the run of an admitted request as it is planned. `view` is the body that its reply echoes.

        With several targets, it is planned for the first that can serve it; the others are left for failures. Raises
        the refusal of the first target if none can: InvalidRequest; and StoreUnavailable.
        """
        further_attempts = _NO_ATTEMPTS
        if len(admitted.route.targets) == 1:
            attempt = self._plan_attempt(admitted, planned, is_stored=is_stored)
        else:
            further_attempts = self._plan_attempts(admitted, planned, is_stored=is_stored)
            attempt = next(further_attempts)
        observer = self._observer.observe_request(
            admitted.endpoint.name, admitted.route.name, streams=admitted.facts.streams
        )
        return Run(
            admitted.endpoint,
            view,
            admitted.facts,
            admitted.owner,
            admitted.identity,
            attempt,
            observer,
            self._provider_hold,
            further_attempts,
        )

    def _plan_attempts(self, admitted: AdmittedRequest, planned: PlanInput, *, is_stored: bool) -> Iterator[Attempt]:
        """Yields the attempts at the targets that can serve the request. Raises the first refusal if none can."""
        refusal: InvalidRequest | None = None
        has_attempt = False
        for target in admitted.route.targets:
            try:
                attempt = self._plan_attempt(admitted, planned._replace(target=target), is_stored=is_stored)
            except InvalidRequest as error:
                refusal = refusal or error
                continue
            has_attempt = True
            yield attempt
        if refusal is not None and not has_attempt:
            raise refusal

    def _plan_attempt(self, admitted: AdmittedRequest, planned: PlanInput, *, is_stored: bool) -> Attempt:
        try:
            plan = make_plan(planned, strict=admitted.is_strict, buffers_sentences=self._buffers_sentences)
        except InvalidRequest as error:
            if not admitted.param_names:
                raise
            raise rename_param_of(error, admitted.param_names) from None
        if planned.tool_host is not None:
            tools = admitted.facts.tools
            reports = tools.reports_events or self._reports_tools
            set_tool_options(admitted.endpoint, plan, reports_events=reports, takes_input=tools.takes_input)
        if admitted.losses or admitted.param_names:
            # The plan may add losses to this list while it runs, so the list itself stays.
            plan.losses[:] = admitted.rename_losses(plan.losses)
            require_no_loss(admitted.losses, strict=admitted.is_strict)
        presentation = self._build_presentation(admitted, planned, plan, is_stored=is_stored)
        return Attempt(planned.target, plan, presentation)

    def _build_presentation(
        self, admitted: AdmittedRequest, planned: PlanInput, plan: RelayPlan | TranslationPlan, *, is_stored: bool
    ) -> Presentation:
        target, route_name = planned.target, admitted.route.name
        item_seal = None
        if target.reasoning_seal is not None:
            carries_seals = admitted.endpoint.reply.carries_seals or admitted.facts.wants_sealed_reasoning
            item_seal = ReplyItemSeal(target.reasoning_seal, carries_seals)
        call_rules, summarizes_reasoning = DEFAULT_RULES, False
        if isinstance(plan, RelayPlan):
            call_rules, summarizes_reasoning = plan.call_rules, plan.summarizes_reasoning
        return Presentation(
            self._reasoning_fields,
            self._max_frame_bytes.get(target.provider.name, DEFAULT_MAX_FRAME_BYTES),
            self._clock,
            None if route_name == target.upstream_model else route_name,
            target.profile,
            is_stored,
            build_redactor(planned.facts.tools.credentials, target.provider.redact),
            item_seal,
            call_rules,
            summarizes_reasoning,
            admitted.hides_thinking,
        )


def build_redactor(credentials: Sequence[str], redact: Callable[[str], str]) -> Callable[[str], str]:
    """Returns the function that redacts an upstream's message about a request.

    Such a message may quote credentials of the request's tools, and of the provider, which `redact` removes.
    """
    if not credentials:
        return redact
    redactor = Redactor(credentials)
    return lambda message: redactor.redact(redact(message))
