"""`include_obfuscation`: pads the deltas of a stream, so that the sizes of its packets reveal less about its text.

Streams without obfuscation have no cost of it. Streams with it have no fast path, because each frame gets random bytes.
"""

import secrets
from typing import Final

from gateway.replies.reply_streams import FrameEncoder, Relay
from gateway.replies.wrappers import EncoderWrapper, RelayWrapper

_PADDED_BYTES: Final = 128
"""The size of a padded frame is a multiple of this number of bytes. Most deltas then have the same size."""

_PADDING_START: Final = b',"obfuscation":"'
_PADDING_END: Final = b'"}\n\n'
_OWN_PADDING: Final = b'"obfuscation":'
_ADDED_BYTES: Final = len(_PADDING_START) + len(_PADDING_END) - len(b"}")


def pad_frames(frames: bytes) -> bytes:
    """Returns whole frames with a random `obfuscation` in each delta, unless the upstream has padded it already."""
    *pieces, rest = frames.split(b"\n\n")
    return b"".join([_pad_frame(piece) for piece in pieces]) + rest


def _pad_frame(frame: bytes) -> bytes:
    if not (_is_delta(frame) and frame.endswith(b"}")) or _OWN_PADDING in frame:
        return frame + b"\n\n"
    padding_bytes = 1 + -(len(frame) + _ADDED_BYTES + 1) % _PADDED_BYTES
    padding = secrets.token_urlsafe(_PADDED_BYTES)[:padding_bytes].encode()
    return b"%b%b%b%b" % (frame[:-1], _PADDING_START, padding, _PADDING_END)


def _is_delta(frame: bytes) -> bool:
    """Whether a frame is an event of the Responses API with a delta, or a chunk of the Chat Completions API."""
    if frame.startswith(b"event: "):
        return frame[: frame.find(b"\n")].endswith(b".delta")
    return frame.startswith(b"data: {") and b'"delta":' in frame


class ObfuscatingEncoder(EncoderWrapper[FrameEncoder]):
    """A FrameEncoder that pads the deltas of another."""

    def _process_frames(self, frames: bytes) -> bytes:
        return pad_frames(frames)


class ObfuscatingRelay(RelayWrapper[Relay]):
    """A Relay that pads the deltas of another, unless the upstream has padded them."""

    def _process_frames(self, frames: bytes) -> bytes:
        return pad_frames(frames)
