"""Produces the reply of a planned request, as a stream or as one JSON object. It does not store it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.config.settings import Settings
from gateway.error_replies import build_failed_event
from gateway.errors import TurnFailed
from gateway.logs import bind_tool_warnings, bind_unreported, bind_usage
from gateway.planning.plan import RelayPlan, TranslationPlan, make_plan, require_no_loss, set_tool_options
from gateway.planning.plan_input import AdmittedRequest, PlanInput
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
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.request_facts import RequestFacts

_MB: Final = 1024 * 1024


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
    presentation: Presentation
    plan: RelayPlan | TranslationPlan
    provider_hold: ProviderHold | None = None
    """Keeps the plan's provider open until the reply has ended."""
    late_losses: list[Loss] = field(default_factory=list, init=False)
    """Losses that are known only when a JSON reply is complete: tool calls with a warning, and missing results."""
    _collector: ReplyCollector | None = field(default=None, init=False)
    """Collects the JSON reply of a run that calls tools."""

    def build_stream(self) -> ReplyStream:
        """Returns the reply as a stream. The plan's exchange is used, so only one reply can be produced."""
        plan = self.plan
        if isinstance(plan, RelayPlan):
            relay = plan.relay.make_relay(self.body, self.identity, self.presentation)
            if self.facts.is_obfuscated:
                relay = ObfuscatingRelay(relay)
            return RelayedReply(plan.exchange, relay, self.provider_hold, self._overflow_params)
        encoder = self.endpoint.reply.encoder(self.body, self.identity, self.presentation)
        if self.facts.is_obfuscated:
            encoder = ObfuscatingEncoder(encoder)
        return TranslatedReply(
            plan.exchange, plan.event_stage, encoder, plan.params, self.provider_hold, self._overflow_params
        )

    async def produce_reply(self) -> Json:
        """Produces the reply as one JSON object: the same events as a stream, collected.

        Raises TurnFailed, ProviderError, and InvalidRequest with the client's parameter name.
        """
        try:
            return await self._collect_reply()
        except (ProviderError, TurnFailed) as error:
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
        return reply if any(item["type"] == "mcp_call" for item in reply.get("output", ())) else None

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

    async def _collect_reply(self) -> Json:
        plan = self.plan
        if isinstance(plan, RelayPlan):
            answer = await plan.exchange.fetch_body()
            if isinstance(answer, bytes):
                answer = plan.relay.collect_stream(self.body, answer, self.identity, self.presentation)
            elif isinstance(reported := answer.get("usage"), dict):
                bind_usage(plan.relay.read_usage(reported))
            reply = plan.relay.build_json(self.body, answer, self.identity, self.presentation)
            self._record_warnings(read_reply_warnings(reply))
            return reply
        exchange, event_stage = plan.exchange, plan.event_stage
        collector = self.endpoint.reply.collector(self.body, self.identity, self.presentation)
        self._collector = collector if plan.loop_io is not None else None

        def collect(batch: Batch) -> None:
            events = batch if event_stage is None else event_stage.feed(batch)
            if facts := collect_facts(events):
                self._record_warnings(collect_warnings(facts))
                self._record_unreported(collect_unreported(facts))
            collector.feed(events)
            bind_usage(find_final_usage(events))

        try:
            await batch_source_of(exchange).feed_to(collect)
        except InvalidRequest as error:
            if plan.params is not None:
                plan.params.rename_param_of(error)
            raise
        if collector.failed is not None:
            raise TurnFailed(collector.failed)
        return collector.result()

    def _record_warnings(self, warnings: Sequence[Json]) -> None:
        bind_tool_warnings(warnings)
        self.late_losses.extend(build_warning_losses(warnings))

    def _record_unreported(self, unreported: Sequence[str]) -> None:
        bind_unreported(unreported)
        self.late_losses.extend(Loss(param, "not reported") for param in unreported)

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

    def __init__(self, settings: Settings, provider_hold: ProviderHold | None = None) -> None:
        self._provider_hold = provider_hold
        self._max_frame_bytes = {name: int(config.max_line_mb * _MB) for name, config in settings.providers.items()}
        self._reasoning_fields = frozenset(settings.server.reasoning_fields)
        self._buffers_sentences = settings.server.sentence_buffer
        self._reports_tools = settings.tools.events
        self._clock: Callable[[], int] = lambda: int(time.time())

    def build_run(self, admitted: AdmittedRequest, planned: PlanInput, view: Json, *, is_stored: bool = False) -> Run:
        """Returns the run of an admitted request as it is planned. `view` is the body that its reply echoes.

        Raises InvalidRequest and StoreUnavailable.
        """
        try:
            plan = make_plan(planned, strict=admitted.is_strict, buffers_sentences=self._buffers_sentences)
        except InvalidRequest as error:
            if not admitted.param_names:
                raise
            raise rename_param_of(error, admitted.param_names) from None
        endpoint, facts = admitted.endpoint, admitted.facts
        if planned.tool_host is not None:
            reports = facts.tools.reports_events or self._reports_tools
            set_tool_options(endpoint, plan, reports_events=reports, takes_input=facts.tools.takes_input)
        if admitted.losses or admitted.param_names:
            # The plan may add losses to this list while it runs, so the list itself stays.
            plan.losses[:] = admitted.rename_losses(plan.losses)
            require_no_loss(admitted.losses, strict=admitted.is_strict)
        presentation = self._build_presentation(admitted, planned, plan, is_stored=is_stored)
        return Run(endpoint, view, facts, admitted.owner, admitted.identity, presentation, plan, self._provider_hold)

    def _build_presentation(
        self, admitted: AdmittedRequest, planned: PlanInput, plan: RelayPlan | TranslationPlan, *, is_stored: bool
    ) -> Presentation:
        route, endpoint = admitted.route, admitted.endpoint
        max_frame_bytes = self._max_frame_bytes.get(route.target.provider.name, DEFAULT_MAX_FRAME_BYTES)
        presentation = Presentation(self._reasoning_fields, max_frame_bytes, self._clock)
        presentation.is_stored = is_stored
        presentation.hides_thinking = admitted.hides_thinking
        presentation.profile = route.target.profile
        presentation.scrub = build_redactor(planned.facts.tools.credentials, route.target.provider.redact)
        if route.name != route.target.upstream_model:
            presentation.reported_model = route.name
        if route.target.reasoning_seal is not None:
            carries_seals = endpoint.reply.carries_seals or admitted.facts.wants_sealed_reasoning
            presentation.item_seal = ReplyItemSeal(route.target.reasoning_seal, carries_seals)
        if isinstance(plan, RelayPlan):
            presentation.call_rules = plan.call_rules
            presentation.summarizes_reasoning = plan.summarizes_reasoning
        return presentation


def build_redactor(credentials: Sequence[str], redact: Callable[[str], str]) -> Callable[[str], str]:
    """Returns the function that redacts an upstream's message about a request.

    Such a message may quote credentials of the request's tools, and of the provider, which `redact` removes.
    """
    if not credentials:
        return redact
    redactor = Redactor(credentials)
    return lambda message: redactor.redact(redact(message))
