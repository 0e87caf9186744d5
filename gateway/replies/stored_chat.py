"""Chat streams that are also added up, for completions that are stored."""

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
    """An encoder that remembers what it said."""

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
        """The completion the chunks add up to; None unless they ended well."""
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
        """There is none: every frame is recorded."""
        return


class StoredChatRelay:
    """A relay that remembers what it forwarded."""

    template = None
    """No short way past this memory."""

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
        """The completion the chunks add up to; None unless they ended well."""
        if self.failed is not None or not self.ended:
            return None
        return _build_completion([*self._sent_frames, self._relay.closing_frames], self._relay.usage)

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
    # Told even to a client that did not ask for it in its stream.
    if (counted := reply_objects.build_usage(usage)) is not None:
        completion["usage"] = counted
    return completion
