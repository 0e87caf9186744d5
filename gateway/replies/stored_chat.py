"""Wraps chat encoders and relays for completions that are stored: collects the sent frames to one completion."""

from gateway.replies.wrappers import EncoderWrapper, RelayWrapper
from translation.chat import reply_objects
from translation.chat.encode import ChatEncoder
from translation.chat.forms import completion_of
from translation.chat.relaying.relay import ChatRelay
from translation.representation.events import Usage
from translation.representation.json_types import Json


class StoredChatEncoder(EncoderWrapper[ChatEncoder]):
    """A chat FrameEncoder that collects the frames it returned."""

    def __init__(self, encoder: ChatEncoder) -> None:
        super().__init__(encoder)
        self._sent_frames: list[bytes] = []

    @property
    def response(self) -> Json | None:
        """The completion that the sent chunks add up to; None unless the reply ended well."""
        if self.failed is not None or not self.ended:
            return None
        return _build_completion([*self._sent_frames, self._encoder.closing_frames], self._encoder.usage)

    def _process_frames(self, frames: bytes) -> bytes:
        self._sent_frames.append(frames)
        return frames


class StoredChatRelay(RelayWrapper[ChatRelay]):
    """A chat Relay that collects the frames it returned."""

    def __init__(self, relay: ChatRelay) -> None:
        super().__init__(relay)
        self._sent_frames: list[bytes] = []

    @property
    def response(self) -> Json | None:
        """The completion that the sent chunks add up to; None unless the reply ended well."""
        if self.failed is not None or not self.ended:
            return None
        return _build_completion([*self._sent_frames, self._relay.closing_frames], self._relay.usage)

    def _process_frames(self, frames: bytes) -> bytes:
        self._sent_frames.append(frames)
        return frames


def _build_completion(frames: list[bytes], usage: Usage | None) -> Json:
    completion = completion_of(b"".join(frames))
    # The stored completion has the usage even if the client did not request it in its stream.
    if (usage_object := reply_objects.build_usage(usage)) is not None:
        completion["usage"] = usage_object
    return completion
