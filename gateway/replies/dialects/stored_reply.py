"""What encoders share whose clients get another form of a reply than the store."""

from typing import TypeVar

from gateway.replies.reply_streams import FrameEncoder
from gateway.replies.wrappers import EncoderWrapper
from translation.representation.json_types import Json
from translation.responses.snapshot import Snapshot

_Encoder = TypeVar("_Encoder", bound=FrameEncoder)


class StoredReplyEncoder(EncoderWrapper[_Encoder]):
    """The common part of a FrameEncoder: `encoder` writes for the client, `snapshot` collects the response to store.

    A subclass feeds both.
    """

    def __init__(self, encoder: _Encoder, snapshot: Snapshot) -> None:
        super().__init__(encoder)
        self._snapshot = snapshot

    @property
    def response(self) -> Json:
        return self._snapshot.response
