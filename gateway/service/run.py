"""One reply in the making: from a plan to the bytes or the object its client gets."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataplane.source import Incoming, Iterated
from gateway.errors import TurnFailed
from gateway.logs import note_unreported, note_warnings
from gateway.planning.plan import Relayed, Translated
from gateway.replies.endpoints import Endpoint, Identity, Presentation
from gateway.replies.event_stream import Wire
from gateway.replies.loss_header import (
    LOSS_HEADER,
    facts_in,
    loss_header,
    unreported_in,
    warned_calls,
    warnings_in,
    warnings_of,
)
from gateway.replies.reply_streams import RelayedWire, TranslatedWire
from providers.base import Batch
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss


@dataclass(slots=True)
class Run:
    """One response being produced: the client's body, who serves it, and how."""

    endpoint: Endpoint
    body: Json
    identity: Identity
    presentation: Presentation
    plan: Relayed | Translated
    warned: list[Loss] = field(default_factory=list, init=False)
    """Calls of a whole reply that have a warning, and what it lacks; known once there is a result."""

    def wire(self) -> Wire:
        """The response as a stream."""
        plan = self.plan
        if isinstance(plan, Relayed):
            return RelayedWire(plan.exchange, self.endpoint.relay(self.body, self.identity, self.presentation))
        encoder = self.endpoint.encoder(self.body, self.identity, self.presentation)
        return TranslatedWire(plan.exchange, plan.calls, encoder, plan.params)

    async def result(self) -> Json:
        """The response whole: the stream, collected. Raises TurnFailed and ProviderError."""
        plan = self.plan
        if isinstance(plan, Relayed):
            answer = await plan.exchange.answer()
            if isinstance(answer, bytes):
                answer = self.endpoint.collect_relay(self.body, answer, self.identity, self.presentation)
            told = self.endpoint.relay_answer(self.body, answer, self.identity, self.presentation)
            self._warn(warnings_of(told))
            return told
        exchange, calls = plan.exchange, plan.calls
        collector = self.endpoint.collector(self.body, self.identity, self.presentation)

        def collect(batch: Batch) -> None:
            said = batch if calls is None else calls.feed(batch)
            if facts := facts_in(said):
                self._warn(warnings_in(facts))
                self._miss(unreported_in(facts))
            collector.feed(said)

        source = exchange if isinstance(exchange, Incoming) else Iterated(exchange.batches(), ())
        try:
            await source.feed_to(collect)
        except InvalidRequest as refused:
            if plan.params is not None:
                plan.params.rename(refused)
            raise
        if collector.failed is not None:
            raise TurnFailed(collector.failed)
        return collector.result()

    def _warn(self, warnings: Sequence[Json]) -> None:
        note_warnings(warnings)
        self.warned.extend(warned_calls(warnings))

    def _miss(self, unreported: str | None) -> None:
        note_unreported(unreported)
        if unreported is not None:
            self.warned.append(Loss(unreported, "not reported"))

    def headers(self) -> dict[str, str]:
        """What the request lost, and a whole reply of the model's calls, for the client to read."""
        losses = [*self.plan.losses, *self.warned] if self.warned else self.plan.losses
        return loss_header(losses) if losses else {}

    def losses(self) -> str | None:
        """The same, as it is kept."""
        return self.headers().get(LOSS_HEADER)
