"""One reply in the making: from a plan to the bytes or the object its client gets."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataplane.source import IteratedSource, Source
from gateway.errors import TurnFailed
from gateway.logs import bind_tool_warnings, bind_unreported
from gateway.planning.plan import RelayPlan, TranslationPlan
from gateway.replies.endpoints import Endpoint, Presentation, ReplyIdentity
from gateway.replies.event_stream import ReplyStream
from gateway.replies.loss_header import (
    LOSS_HEADER,
    facts_in,
    render_loss_header,
    unreported_in,
    warning_losses,
    warnings_in,
    warnings_of,
)
from gateway.replies.reply_streams import RelayedReply, TranslatedReply
from providers.base import Batch
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss


@dataclass(slots=True)
class Run:
    """One response being produced: the client's body, who serves it, and how."""

    endpoint: Endpoint
    body: Json
    identity: ReplyIdentity
    presentation: Presentation
    plan: RelayPlan | TranslationPlan
    late_losses: list[Loss] = field(default_factory=list, init=False)
    """Calls of a whole reply that have a warning, and what it lacks; known once there is a result."""

    def build_stream(self) -> ReplyStream:
        """The response as a stream."""
        plan = self.plan
        if isinstance(plan, RelayPlan):
            return RelayedReply(plan.exchange, self.endpoint.relay(self.body, self.identity, self.presentation))
        encoder = self.endpoint.encoder(self.body, self.identity, self.presentation)
        return TranslatedReply(plan.exchange, plan.event_stage, encoder, plan.params)

    async def produce_reply(self) -> Json:
        """The response whole: the stream, collected. Raises TurnFailed and ProviderError."""
        plan = self.plan
        if isinstance(plan, RelayPlan):
            answer = await plan.exchange.fetch_body()
            if isinstance(answer, bytes):
                answer = self.endpoint.collect_relayed_stream(self.body, answer, self.identity, self.presentation)
            reply = self.endpoint.relay_json(self.body, answer, self.identity, self.presentation)
            self._record_warnings(warnings_of(reply))
            return reply
        exchange, calls = plan.exchange, plan.event_stage
        collector = self.endpoint.collector(self.body, self.identity, self.presentation)

        def collect(batch: Batch) -> None:
            said = batch if calls is None else calls.feed(batch)
            if facts := facts_in(said):
                self._record_warnings(warnings_in(facts))
                self._record_unreported(unreported_in(facts))
            collector.feed(said)

        source = exchange if isinstance(exchange, Source) else IteratedSource(exchange.batches(), ())
        try:
            await source.feed_to(collect)
        except InvalidRequest as refused:
            if plan.params is not None:
                plan.params.rename_param_of(refused)
            raise
        if collector.failed is not None:
            raise TurnFailed(collector.failed)
        return collector.result()

    def _record_warnings(self, warnings: Sequence[Json]) -> None:
        bind_tool_warnings(warnings)
        self.late_losses.extend(warning_losses(warnings))

    def _record_unreported(self, unreported: str | None) -> None:
        bind_unreported(unreported)
        if unreported is not None:
            self.late_losses.append(Loss(unreported, "not reported"))

    def loss_headers(self) -> dict[str, str]:
        """What the request lost, and a whole reply of the model's calls, for the client to read."""
        losses = [*self.plan.losses, *self.late_losses] if self.late_losses else self.plan.losses
        return render_loss_header(losses) if losses else {}

    def render_losses(self) -> str | None:
        """The same, as it is kept."""
        return self.loss_headers().get(LOSS_HEADER)
