"""Base classes of encoders and relays that wrap another one, to give its client or the store another form of reply."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from dataplane.source import ReadTemplate
from gateway.replies.reply_streams import FrameEncoder, Relay
from providers.base import Batch
from translation.representation.delta_runs import DeltaRun, TextObserver
from translation.representation.events import Failed, FinishReason, Usage
from translation.representation.json_types import Json
from translation.responses.client.snapshot import Snapshot

_Encoder = TypeVar("_Encoder", bound=FrameEncoder)
_Relay = TypeVar("_Relay", bound=Relay)


class EncoderWrapper(Generic[_Encoder]):
    """A FrameEncoder that answers as the wrapped `encoder` does. A subclass changes what is fed or returned."""

    def __init__(self, encoder: _Encoder) -> None:
        self._encoder = encoder

    @property
    def ended(self) -> bool:
        return self._encoder.ended

    @property
    def failed(self) -> Failed | None:
        return self._encoder.failed

    @property
    def response(self) -> Json | None:
        return self._encoder.response

    def feed(self, batch: Batch) -> bytes:
        return self._process_frames(self._encoder.feed(batch))

    def conclude(self) -> bytes:
        return self._encoder.conclude()

    def build_delta_template(self, _run: DeltaRun, _observers: Sequence[TextObserver]) -> ReadTemplate[bytes] | None:
        """Returns None: the wrapper has to see every event or frame, so there is no fast path."""
        return None

    def _process_frames(self, frames: bytes) -> bytes:
        """Returns the frames to send instead of the wrapped encoder's frames."""
        return frames


class RelayWrapper(Generic[_Relay]):
    """A Relay that answers as the wrapped `relay` does. A subclass processes the frames that it returns."""

    template = None
    """The wrapper has to see every frame, so there is no fast path."""

    def __init__(self, relay: _Relay) -> None:
        self._relay = relay

    @property
    def has_content(self) -> bool:
        return self._relay.has_content

    @property
    def is_filtered(self) -> bool:
        return self._relay.is_filtered

    @property
    def failed(self) -> Failed | None:
        return self._relay.failed

    @property
    def ended(self) -> bool:
        return self._relay.ended

    @property
    def response(self) -> Json | None:
        return self._relay.response

    @property
    def usage(self) -> Usage | None:
        return self._relay.usage

    @property
    def finish_reason(self) -> FinishReason | None:
        return self._relay.finish_reason

    @property
    def warnings(self) -> Sequence[Json]:
        return self._relay.warnings

    @property
    def unreported(self) -> Sequence[str]:
        return self._relay.unreported

    def feed(self, read: bytes) -> bytes:
        return self._process_frames(self._relay.feed(read))

    def finish(self) -> bytes:
        return self._process_frames(self._relay.finish())

    def fail(self, failed: Failed) -> bytes:
        return self._relay.fail(failed)

    def conclude(self) -> bytes:
        return self._relay.conclude()

    def _process_frames(self, frames: bytes) -> bytes:
        """Returns the frames to send instead of the wrapped relay's frames."""
        return frames


class StoredReplyEncoder(EncoderWrapper[_Encoder]):
    """The base of encoders for clients that get another form of reply than the store.

    `encoder` writes for the client, and `snapshot` collects the response to store. A subclass feeds both.
    """

    def __init__(self, encoder: _Encoder, snapshot: Snapshot) -> None:
        super().__init__(encoder)
        self._snapshot = snapshot

    @property
    def response(self) -> Json:
        return self._snapshot.response
