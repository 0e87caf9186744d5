"""What encoders share whose clients get another form of a reply than the store."""

from typing import Generic, TypeVar

from gateway.replies.reply_streams import FrameEncoder
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.responses.snapshot import Snapshot

_Encoder = TypeVar("_Encoder", bound=FrameEncoder)


class StoredReplyEncoder(Generic[_Encoder]):
    """The common part of a FrameEncoder: `encoder` writes for the client, `snapshot` collects the response to store.

    A subclass feeds both, and says how the reply is concluded.
    """

    def __init__(self, encoder: _Encoder, snapshot: Snapshot) -> None:
        self._encoder = encoder
        self._snapshot = snapshot

    @property
    def ended(self) -> bool:
        return self._encoder.ended

    @property
    def failed(self) -> Failed | None:
        return self._encoder.failed

    @property
    def response(self) -> Json:
        return self._snapshot.response
