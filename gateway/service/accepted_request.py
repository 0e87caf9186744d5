"""A request that was accepted: how its reply is produced, and what it leaves in the store."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from gateway.replies.event_stream import Wire
from gateway.replies.recorder import Recording
from gateway.service.run import Run
from gateway.state.store import NewResponse
from translation.representation.json_types import Item, Json


@dataclass(slots=True)
class Opened:
    """One reply, not yet begun."""

    run: Run
    context: Sequence[Item] = ()
    """A Responses request's whole input: history, then its own."""
    recording: Recording | None = None
    """Where it is kept, if it is kept and answered right away."""
    job: NewResponse | None = None
    """What is written before it is answered, if it goes on without its client."""

    @property
    def response_id(self) -> str:
        return self.run.identity.id

    def wire(self) -> Wire:
        """The reply as a stream. Who sends it awaits `settle` before its terminal event leaves."""
        return self.run.wire()

    async def settle(self, wire: Wire) -> None:
        """Keep the reply that `wire` has just ended. Raises StoreUnavailable."""
        if self.recording is not None:
            await self.recording.finish(wire.result())

    def result(self) -> Awaitable[Json]:
        """The reply whole, kept before it is returned. Raises TurnFailed, ProviderError, StoreUnavailable."""
        return self.run.result() if self.recording is None else self._kept(self.recording)

    async def _kept(self, recording: Recording) -> Json:
        recording.begin()
        try:
            result = await self.run.result()
            await recording.finish(result)
            return result
        finally:
            await recording.abandon(None)

    def losses(self) -> str | None:
        """What it has lost so far, as it is kept."""
        return self.run.losses()

    def headers(self) -> dict[str, str]:
        """What the request lost, for the client to read."""
        return self.run.headers()
