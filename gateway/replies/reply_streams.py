"""The two ways a response reaches its client: translated from events, or relayed as it came."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final, Protocol

from dataplane.source import Alike, Incoming, Iterated, Sink
from gateway.errors import TurnFailed, as_event
from gateway.logs import note_failure, note_unreported, note_warnings
from gateway.replies.client_params import ClientParams
from gateway.replies.loss_header import facts_in, unreported_in, warnings_in
from providers.base import Batch, Exchange, RelayExchange
from providers.http.dialects import Run
from providers.http.exchange import WireExchange
from translation.errors import InvalidRequest, ProtocolViolation
from translation.representation.events import Event, Failed, Noted, Opaque, Started
from translation.representation.json_types import Json
from translation.responses.delta_template import Retelling

_NO_CONTENT: Final = frozenset({Started, Noted, Opaque})
"""Events of which a retry would repeat nothing."""


class Encoder(Protocol):
    """Events to whole frames of one endpoint's dialect; ends with [DONE] after Finished or Failed."""

    @property
    def ended(self) -> bool: ...
    @property
    def failed(self) -> Failed | None: ...
    @property
    def response(self) -> Json | None: ...
    def feed(self, batch: Batch, /) -> bytes: ...
    def withdraw(self, frames: bytes, /) -> bytes: ...


class CallMapping(Protocol):
    """Maps function calls back to the kinds of items the client's tools had."""

    def feed(self, batch: Batch, /) -> Batch: ...


class Relay(Protocol):
    """Bytes of an upstream that speaks the endpoint's dialect to bytes for the client."""

    @property
    def has_content(self) -> bool: ...
    @property
    def failed(self) -> Failed | None: ...
    @property
    def ended(self) -> bool: ...
    @property
    def response(self) -> Json | None: ...
    @property
    def warnings(self) -> Sequence[Json]: ...
    @property
    def alike(self) -> Alike[bytes] | None: ...
    def feed(self, read: bytes, /) -> bytes: ...
    def finish(self) -> bytes: ...
    def fail(self, failed: Failed, /) -> bytes: ...
    def withdraw(self, frames: bytes, /) -> bytes: ...


class TranslatedWire(Incoming[bytes]):
    """Upstream events, encoded."""

    ended = False
    _failed: Failed | None = None
    _ending: Batch = ()

    def __init__(
        self,
        exchange: Exchange,
        calls: CallMapping | None,
        encoder: Encoder,
        params: ClientParams | None = None,
    ) -> None:
        """`params`: names what is refused on opening."""
        # Each read asks for these, and what only the class has is looked up the slow way.
        self.alike: Retelling | None = None
        self.ended = False
        self.has_content = False
        self._batches = exchange if isinstance(exchange, Incoming) else Iterated(exchange.batches(), ())
        self._calls = calls
        self._params = params
        self._encoder = encoder
        # What is mapped is looked at event by event.
        self._running = exchange if calls is None and isinstance(exchange, WireExchange) else None
        self._run: Run | None = None
        """What the next read is like; `alike` is for it."""
        self._retell: Callable[[Run], Retelling] | None = getattr(encoder, "retelling", None)
        if self._retell is None:
            self._running = None

    def frames(self) -> AsyncGenerator[bytes, None]:
        return self.each()

    async def open(self) -> None:
        try:
            await self._batches.open()
        except InvalidRequest as refused:
            if self._params is not None:
                self._params.rename(refused)
            raise

    def take(self) -> bytes:
        return self._tell(self._batches.take())

    def taken(self, read: bytes) -> bytes:
        return self._tell(self._batches.taken(read))

    def _tell(self, batch: Batch) -> bytes:
        self.is_late = self._batches.is_late
        frames = b""
        if batch:
            if self._calls is not None:
                batch = self._calls.feed(batch)
            if not self.has_content:
                self.has_content = has_content(batch)
            frames = self._encoder.feed(batch)
            if self._encoder.ended:
                self.ended = True
                self._ending = batch
                self._failed = self._encoder.failed
        elif self._batches.ended:
            raise ProtocolViolation("the upstream's turn stopped without an end")
        running = self._running
        if running is not None and running.run is not self._run:
            self._look_ahead(running.run)
        return frames

    def _look_ahead(self, run: Run | None) -> None:
        self._run = run
        self.alike = None if run is None or self._retell is None else self._retell(run)

    def arrival(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._batches.arrival(sink)

    async def close(self, *, whole: bool = False) -> None:
        if facts := facts_in(self._ending):
            note_warnings(warnings_in(facts))
            note_unreported(unreported_in(facts))
        if self._failed is not None:
            note_failure(TurnFailed(self._failed))
        await self._batches.close(whole=whole)

    def result(self) -> Json | None:
        return self._encoder.response

    def fail(self, error: Exception) -> bytes:
        if self._encoder.ended:
            return b""
        self.ended = True
        return self._encoder.feed([as_event(error)])

    def withdraw(self, frames: bytes) -> bytes:
        self.ended = False
        return self._encoder.withdraw(frames)


class RelayedWire(Incoming[bytes]):
    """Upstream bytes, watched."""

    ended = False
    has_content = False

    def __init__(self, exchange: RelayExchange, relay: Relay) -> None:
        self._reads = exchange if isinstance(exchange, Incoming) else Iterated(exchange.reads(), b"")
        self._relay = relay
        self._unsaid = b""
        """The end of a reply that failed before its content, for whoever cannot make it a status any more."""

    def frames(self) -> AsyncGenerator[bytes, None]:
        return self.each()

    async def open(self) -> None:
        await self._reads.open()

    def take(self) -> bytes:
        return self._pass_on(self._reads.take())

    def taken(self, read: bytes) -> bytes:
        return self._pass_on(self._reads.taken(read))

    def _pass_on(self, read: bytes) -> bytes:
        is_over = self._reads.ended
        if not (read or is_over):
            return b""
        relay = self._relay
        frames = relay.feed(read) if read else b""
        if is_over and not relay.ended:
            frames += relay.finish()
        self.alike = relay.alike
        self.has_content = relay.has_content
        if relay.failed is not None and not relay.has_content:
            self._unsaid = frames
            raise TurnFailed(relay.failed)
        self.ended = relay.ended
        return frames

    def arrival(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._reads.arrival(sink)

    async def close(self, *, whole: bool = False) -> None:
        note_warnings(self._relay.warnings)
        if self.ended and self._relay.failed is not None:
            note_failure(TurnFailed(self._relay.failed))
        await self._reads.close(whole=self.ended)

    def result(self) -> Json | None:
        return self._relay.response

    def fail(self, error: Exception) -> bytes:
        frames, self._unsaid = self._unsaid + self._relay.fail(as_event(error)), b""
        self.ended = True
        return frames

    def withdraw(self, frames: bytes) -> bytes:
        self.ended = False
        return self._relay.withdraw(frames)


def relay_whole(relay: Relay, stream: bytes) -> bytes:
    """A stream that came all at once. Raises TurnFailed where it ends in failure."""
    frames = relay.feed(stream) + relay.finish()
    if relay.failed is not None:
        raise TurnFailed(relay.failed)
    return frames


def has_content(batch: Sequence[Event]) -> bool:
    """Whether a batch says anything a retry would repeat. Raises TurnFailed for a failure that comes before that."""
    for event in batch:
        if isinstance(event, Failed):
            raise TurnFailed(event)
        if type(event) not in _NO_CONTENT:
            return True
    return False
