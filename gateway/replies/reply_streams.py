"""The two kinds of reply streams: translated from events, or relayed. They know no dialect."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from typing import Final, Protocol

from dataplane.source import ReadTemplate, Sink, Source
from gateway.error_replies import build_failed_event
from gateway.errors import TurnFailed
from gateway.replies.client_params import ClientParams, RejectionParams
from gateway.replies.loss_header import (
    collect_facts,
    read_end,
)
from gateway.replies.observers import LOG_OBSERVER, ReplyEnd, RequestObserver
from providers.base import Batch, Exchange, RelayExchange, as_batch_source, as_read_source
from providers.errors import ProviderError
from translation.errors import InvalidRequest, ProtocolViolation
from translation.representation.delta_runs import DeltaRun, EventStage, TextObserver
from translation.representation.events import (
    CUT_OFF_REASONS,
    Event,
    Failed,
    Finished,
    FinishReason,
    Noted,
    Opaque,
    Started,
    Usage,
)
from translation.representation.json_types import Json

_CONTENTLESS_EVENTS: Final = frozenset({Started, Noted, Opaque})
"""Events without content: if the upstream fails after them, a retry repeats nothing."""


class FrameEncoder(Protocol):
    """Encodes events as whole frames of one endpoint's dialect."""

    @property
    def ended(self) -> bool:
        """Whether Finished or Failed was fed."""
        ...

    @property
    def failed(self) -> Failed | None:
        """The event that ended the reply, if it failed."""
        ...

    @property
    def response(self) -> Json | None:
        """The reply as one object. It is final once the encoder has `ended`; None if there is nothing to store."""
        ...

    def feed(self, batch: Batch, /) -> bytes:
        """Returns the frames of a batch, without the terminal event."""
        ...

    def conclude(self) -> bytes:
        """Returns the terminal event and [DONE], once, after `ended`."""
        ...

    def build_delta_template(self, run: DeltaRun, observers: Sequence[TextObserver], /) -> ReadTemplate[bytes] | None:
        """Returns the template that turns reads of the run into frames without decoding; None if there is none."""
        ...


class Relay(Protocol):
    """Forwards the bytes of an upstream that speaks the endpoint's dialect to the client."""

    @property
    def has_content(self) -> bool:
        """Whether content was forwarded that a retry would repeat."""
        ...

    @property
    def is_filtered(self) -> bool:
        """Whether a content filter ended the reply before it had content."""
        ...

    @property
    def failed(self) -> Failed | None:
        """The failure that ended the reply, if it failed."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the reply is over."""
        ...

    @property
    def response(self) -> Json | None:
        """The reply as one object. It is final once the relay has `ended`; None if there is nothing to store."""
        ...

    @property
    def usage(self) -> Usage | None:
        """The token counts that the upstream has reported so far."""
        ...

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model stopped, once the reply is complete."""
        ...

    @property
    def warnings(self) -> Sequence[Json]:
        """The warnings about tool calls of the reply."""
        ...

    @property
    def unreported(self) -> Sequence[str]:
        """What the client does not get of the reply, by the names that losses have for it."""
        ...

    @property
    def template(self) -> ReadTemplate[bytes] | None:
        """The template for the next reads, if they may be forwarded by one."""
        ...

    def feed(self, read: bytes, /) -> bytes:
        """Returns the frames that a read completes, without the terminal event."""
        ...

    def finish(self) -> bytes:
        """Returns the last frames when the upstream has closed its stream, without the terminal event."""
        ...

    def fail(self, failed: Failed, /) -> bytes:
        """Ends the reply in failure. Returns the frames before the terminal event."""
        ...

    def conclude(self) -> bytes:
        """Returns the terminal event and what follows it, once, after `ended`."""
        ...


class TranslatedReply(Source[bytes]):
    """A ReplyStream of encoded upstream events. With `params`, errors on opening get the client's parameter names.

    `hold` is kept alive as long as this stream, and not used otherwise.
    """

    ended = False
    is_filtered = False
    """Whether a content filter ended the reply before it had content."""
    _is_concluded = False
    _failed: Failed | None = None
    _last_batch: Batch = ()

    def __init__(
        self,
        exchange: Exchange,
        event_stage: EventStage | None,
        encoder: FrameEncoder,
        params: ClientParams | None = None,
        hold: object = None,
        rejection_params: RejectionParams | None = None,
        observer: RequestObserver = LOG_OBSERVER,
    ) -> None:
        # Every read looks these up, and attributes of the class alone are slower to find.
        self.template: ReadTemplate[bytes] | None = None
        self.ended = False
        self.has_content = False
        self._batches = as_batch_source(exchange)
        self._event_stage = event_stage
        self._params = params
        self._encoder = encoder
        self._hold = hold
        self._rejection_params = rejection_params
        self._observer = observer
        self._delta_run: DeltaRun | None = None
        """The delta run that `template` was made for."""

    def frames(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    async def open(self) -> None:
        try:
            await self._batches.open()
        except InvalidRequest as error:
            if self._params is not None:
                self._params.rename_param_of(error)
            raise
        except ProviderError as error:
            self._name_param_of(error)
            raise
        self._observer.observe_head()

    def take(self) -> bytes:
        try:
            batch = self._batches.take()
        except ProviderError as error:
            self._name_param_of(error)
            raise
        return self._encode_batch(batch)

    def _name_param_of(self, error: ProviderError) -> None:
        if self._rejection_params is not None:
            self._rejection_params.name_param_of(error)

    def take_read(self, read: bytes) -> bytes:
        return self._encode_batch(self._batches.take_read(read))

    def _encode_batch(self, batch: Batch) -> bytes:
        batches, encoder = self._batches, self._encoder
        self.is_draining = batches.is_draining
        frames = b""
        if batch:
            if isinstance(failed := batch[-1], Failed) and self._rejection_params is not None:
                self._rejection_params.name_param_of_failure(failed)
            if self._event_stage is not None:
                batch = self._event_stage.feed(batch)
            if not self.has_content and batch_has_content(batch):
                self.has_content = True
                if isinstance(batch[-1], Finished):
                    self.is_filtered = batch_is_filtered(batch)
                self._observer.observe_content()
            frames = encoder.feed(batch)
            if encoder.ended:
                self.ended = True
                self._last_batch = batch
                self._failed = encoder.failed
                self.template = None
                return frames
        elif batches.ended:
            raise ProtocolViolation("the upstream's reply ended without a terminal event")
        run = batches.delta_run
        if run is None:
            self.template = None
        elif run is not self._delta_run or self.template is None:
            self._delta_run = run
            self.template = self._grant_template(run)
        return frames

    def _grant_template(self, run: DeltaRun) -> ReadTemplate[bytes] | None:
        """Returns the template for a delta run that may take the fast path: every stage and the encoder must agree."""
        observers = () if self._event_stage is None else self._event_stage.delta_observers(run.text_key)
        return None if observers is None else self._encoder.build_delta_template(run, observers)

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._batches.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        batch = self._last_batch
        self._observer.observe_end(read_end(batch, collect_facts(batch), self._failed))
        await self._batches.close(whole=whole)

    def result(self) -> Json | None:
        return self._encoder.response

    def fail(self, error: Exception) -> bytes:
        if self._is_concluded:
            return b""
        self.ended = True
        return self._encoder.feed([build_failed_event(error)])

    def conclude(self) -> bytes:
        self._is_concluded = True
        return self._encoder.conclude()


class RelayedReply(Source[bytes]):
    """A ReplyStream of relayed upstream bytes. `hold` is kept alive as long as this stream."""

    ended = False
    has_content = False

    def __init__(
        self,
        exchange: RelayExchange,
        relay: Relay,
        hold: object = None,
        rejection_params: RejectionParams | None = None,
        observer: RequestObserver = LOG_OBSERVER,
    ) -> None:
        self._observer = observer
        self._reads = as_read_source(exchange)
        self._relay = relay
        self._hold = hold
        self._rejection_params = rejection_params
        self._failure_frames = b""
        """The frames of a reply that failed before its content. `fail` returns them if status 200 was sent already."""

    def frames(self) -> AsyncGenerator[bytes, None]:
        return self.iterate()

    async def open(self) -> None:
        try:
            await self._reads.open()
        except ProviderError as error:
            if self._rejection_params is not None:
                self._rejection_params.name_param_of(error)
            raise
        self._observer.observe_head()

    def take(self) -> bytes:
        return self._relay_read(self._reads.take())

    def take_read(self, read: bytes) -> bytes:
        return self._relay_read(self._reads.take_read(read))

    def _relay_read(self, read: bytes) -> bytes:
        is_over = self._reads.ended
        if not (read or is_over):
            return b""
        relay = self._relay
        frames = relay.feed(read) if read else b""
        if is_over and not relay.ended:
            frames += relay.finish()
        self.template = relay.template
        if not self.has_content and relay.has_content:
            self.has_content = True
            self._observer.observe_content()
        if relay.failed is not None and not relay.has_content:
            self._failure_frames = frames
            if self._rejection_params is not None:
                self._rejection_params.name_param_of_failure(relay.failed)
            raise TurnFailed(relay.failed)
        self.ended = relay.ended
        return frames

    @property
    def is_filtered(self) -> bool:
        """Whether a content filter ended the reply before it had content."""
        return self._relay.is_filtered

    def wait_for_read(self, sink: Sink | None = None) -> Awaitable[None]:
        return self._reads.wait_for_read(sink)

    async def close(self, *, whole: bool = False) -> None:
        relay = self._relay
        failed, reason = (relay.failed, relay.finish_reason) if self.ended else (None, None)
        is_cut_off = reason in CUT_OFF_REASONS
        self._observer.observe_end(ReplyEnd(relay.usage, relay.warnings, relay.unreported, failed, is_cut_off, reason))
        await self._reads.close(whole=self.ended)

    def result(self) -> Json | None:
        return self._relay.response

    def fail(self, error: Exception) -> bytes:
        frames, self._failure_frames = self._failure_frames + self._relay.fail(build_failed_event(error)), b""
        self.ended = True
        return frames

    def conclude(self) -> bytes:
        return self._relay.conclude()


def relay_buffered_stream(relay: Relay, stream: bytes) -> bytes:
    """Relays a complete stream, and returns all frames. Raises TurnFailed if it ends in failure."""
    frames = relay.feed(stream) + relay.finish()
    if relay.failed is not None:
        raise TurnFailed(relay.failed)
    return frames + relay.conclude()


def batch_is_filtered(batch: Sequence[Event]) -> bool:
    """Returns whether a batch ends a reply because of a content filter, and has no content."""
    if not batch or not isinstance(end := batch[-1], Finished) or end.reason != "content_filter":
        return False
    return not has_content_events(batch[:-1])


def has_content_events(batch: Sequence[Event]) -> bool:
    """Returns whether a batch has an event with content."""
    return any(type(event) not in _CONTENTLESS_EVENTS for event in batch)


def batch_has_content(batch: Sequence[Event]) -> bool:
    """Returns whether a batch has content that a retry would repeat. Raises TurnFailed for a failure before that."""
    for event in batch:
        if isinstance(event, Failed):
            raise TurnFailed(event)
        if type(event) not in _CONTENTLESS_EVENTS:
            return True
    return False
