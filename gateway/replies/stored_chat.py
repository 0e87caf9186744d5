"""Wraps chat encoders and relays for completions that are stored: collects the sent frames to one completion."""

from collections.abc import Sequence

from providers.base import Batch
from translation.chat import reply_objects
from translation.chat.encode import ChatEncoder
from translation.chat.forms import completion_of
from translation.chat.relaying.relay import ChatRelay
from translation.representation.delta_runs import DeltaRun, TextObserver
from translation.representation.events import Failed, Usage
from translation.representation.json_types import Json


class StoredChatEncoder:
    """A chat FrameEncoder that collects the frames it returned."""

    def __init__(self, encoder: ChatEncoder) -> None:
        self._encoder = encoder
        self._sent_frames: list[bytes] = []

    @property
    def ended(self) -> bool:
        return self._encoder.ended

    @property
    def failed(self) -> Failed | None:
        return self._encoder.failed

    @property
    def response(self) -> Json | None:
        """The completion that the sent chunks add up to; None unless the reply ended well."""
        if self.failed is not None or not self.ended:
            return None
        return _build_completion([*self._sent_frames, self._encoder.closing_frames], self._encoder.usage)

    def feed(self, batch: Batch) -> bytes:
        frames = self._encoder.feed(batch)
        self._sent_frames.append(frames)
        return frames

    def conclude(self) -> bytes:
        return self._encoder.conclude()

    def delta_template(self, _run: DeltaRun, _observers: Sequence[TextObserver]) -> None:
        """Returns None: every frame has to be collected, so there is no fast path."""
        return


class StoredChatRelay:
    """A chat Relay that collects the frames it returned."""

    template = None
    """Every frame has to be collected, so there is no fast path."""

    def __init__(self, relay: ChatRelay) -> None:
        self._relay = relay
        self._sent_frames: list[bytes] = []

    @property
    def has_content(self) -> bool:
        return self._relay.has_content

    @property
    def failed(self) -> Failed | None:
        return self._relay.failed

    @property
    def ended(self) -> bool:
        return self._relay.ended

    @property
    def response(self) -> Json | None:
        """The completion that the sent chunks add up to; None unless the reply ended well."""
        if self.failed is not None or not self.ended:
            return None
        return _build_completion([*self._sent_frames, self._relay.closing_frames], self._relay.usage)

    @property
    def usage(self) -> Usage | None:
        return self._relay.usage

    @property
    def warnings(self) -> Sequence[Json]:
        return self._relay.warnings

    def feed(self, read: bytes) -> bytes:
        return self._record_frames(self._relay.feed(read))

    def finish(self) -> bytes:
        return self._record_frames(self._relay.finish())

    def fail(self, failed: Failed) -> bytes:
        return self._relay.fail(failed)

    def conclude(self) -> bytes:
        return self._relay.conclude()

    def _record_frames(self, frames: bytes) -> bytes:
        self._sent_frames.append(frames)
        return frames


def _build_completion(frames: list[bytes], usage: Usage | None) -> Json:
    completion = completion_of(b"".join(frames))
    # The stored completion has the usage even if the client did not request it in its stream.
    if (usage_object := reply_objects.build_usage(usage)) is not None:
        completion["usage"] = usage_object
    return completion
