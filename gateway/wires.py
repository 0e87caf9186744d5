"""The two ways a response reaches its client: translated from events, or relayed as it came."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

from gateway.errors import TurnFailed, as_event
from gateway.logs import note_failure
from providers.base import Batch, Exchange, RelayExchange
from translation.events import Event, Failed, Noted, Opaque, Started
from translation.json_types import Json


class Encoder(Protocol):
    """Events to whole frames of one endpoint's dialect; ends with [DONE] after Finished or Failed."""

    @property
    def ended(self) -> bool: ...
    @property
    def response(self) -> Json | None: ...
    def feed(self, batch: Batch, /) -> bytes: ...


class CallMapping(Protocol):
    """Maps function calls back to the kinds of items the client's tools had."""

    def feed(self, batch: Batch, /) -> list[Event]: ...


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
    def feed(self, read: bytes, /) -> bytes: ...
    def finish(self) -> bytes: ...
    def fail(self, failed: Failed, /) -> bytes: ...


class TranslatedWire:
    """Upstream events, encoded."""

    def __init__(self, exchange: Exchange, calls: CallMapping | None, encoder: Encoder) -> None:
        self.has_content = False
        self._exchange = exchange
        self._calls = calls
        self._encoder = encoder

    async def frames(self) -> AsyncGenerator[bytes, None]:
        mapped: Batch = ()
        async with aclosing(self._exchange.batches()) as batches:
            async for batch in batches:
                mapped = batch if self._calls is None else self._calls.feed(batch)
                if not self.has_content:
                    self.has_content = has_content(mapped)
                if frames := self._encoder.feed(mapped):
                    yield frames
        if mapped and isinstance(mapped[-1], Failed):
            note_failure(TurnFailed(mapped[-1]))

    @property
    def ended(self) -> bool:
        return self._encoder.ended

    def result(self) -> Json | None:
        return self._encoder.response

    def fail(self, error: Exception) -> bytes:
        return b"" if self._encoder.ended else self._encoder.feed([as_event(error)])


class RelayedWire:
    """Upstream bytes, watched."""

    def __init__(self, exchange: RelayExchange, relay: Relay) -> None:
        self._exchange = exchange
        self._relay = relay

    @property
    def has_content(self) -> bool:
        return self._relay.has_content

    @property
    def ended(self) -> bool:
        return self._relay.ended

    def result(self) -> Json | None:
        return self._relay.response

    async def frames(self) -> AsyncGenerator[bytes, None]:
        relay = self._relay
        async with aclosing(self._exchange.reads()) as reads:
            async for read in reads:
                frames = relay.feed(read)
                self._refuse_early_failure()
                if frames:
                    yield frames
        frames = relay.finish()
        self._refuse_early_failure()
        if relay.failed is not None:
            note_failure(TurnFailed(relay.failed))
        yield frames

    def fail(self, error: Exception) -> bytes:
        return self._relay.fail(as_event(error))

    def _refuse_early_failure(self) -> None:
        if self._relay.failed is not None and not self._relay.has_content:
            raise TurnFailed(self._relay.failed)


def relay_whole(relay: Relay, stream: bytes) -> bytes:
    """A stream that came all at once. Raises TurnFailed where it ends in failure."""
    frames = relay.feed(stream) + relay.finish()
    if relay.failed is not None:
        raise TurnFailed(relay.failed)
    return frames


def has_content(batch: Sequence[Event]) -> bool:
    """Whether a batch says anything a retry would repeat. Raises TurnFailed for a failure that comes before that."""
    for event in batch:
        match event:
            case Failed():
                raise TurnFailed(event)
            case Started() | Noted() | Opaque():
                continue
            case _:
                return True
    return False
