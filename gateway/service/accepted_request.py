"""A request that was accepted: how its reply is produced, and what it leaves in the store."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from gateway.replies.event_stream import ReplyStream
from gateway.replies.recorder import ReplyRecorder
from gateway.service.run import Run
from gateway.state.store import NewResponse
from translation.representation.json_types import Item, Json


@dataclass(slots=True)
class AcceptedRequest:
    """One reply, not yet begun."""

    run: Run
    context: Sequence[Item] = ()
    """A Responses request's whole input: history, then its own."""
    recorder: ReplyRecorder | None = None
    """Where it is kept, if it is kept and answered right away."""
    job: NewResponse | None = None
    """What is written before it is answered, if it goes on without its client."""

    @property
    def response_id(self) -> str:
        return self.run.identity.id

    def build_stream(self) -> ReplyStream:
        """The reply as a stream. Who sends it awaits `settle` before its terminal event leaves."""
        return self.run.build_stream()

    async def commit_reply(self, stream: ReplyStream) -> None:
        """Keep the reply that `wire` has just ended. Raises StoreUnavailable."""
        if self.recorder is not None:
            await self.recorder.finish(stream.result())

    def produce_reply(self) -> Awaitable[Json]:
        """The reply whole, kept before it is returned. Raises TurnFailed, ProviderError, StoreUnavailable."""
        return self.run.produce_reply() if self.recorder is None else self._produce_and_store(self.recorder)

    async def _produce_and_store(self, recorder: ReplyRecorder) -> Json:
        recorder.begin()
        try:
            result = await self.run.produce_reply()
            await recorder.finish(result)
            return result
        finally:
            await recorder.abandon(None)

    def render_losses(self) -> str | None:
        """What it has lost so far, as it is kept."""
        return self.run.render_losses()

    def loss_headers(self) -> dict[str, str]:
        """What the request lost, for the client to read."""
        return self.run.loss_headers()
