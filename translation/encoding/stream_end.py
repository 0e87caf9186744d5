"""The end of a stream for a client: it is returned once, and until then a failure may replace it.

The encoders of every dialect, and its relay, derive from `StreamEnd`.
"""

from translation.representation.events import Failed


class StreamEnd:
    """The part of encoders and relays that ends their streams."""

    def __init__(self) -> None:
        self.ended = False
        """Whether the reply is over. Then `conclude` returns its last frames."""
        self.failed: Failed | None = None
        """The failure that ended the reply, if there is one."""
        self.closing_frames = b""
        """The frames that `conclude` returns. They are complete once `ended` is True."""
        self._is_concluded = False

    def conclude(self) -> bytes:
        """Returns the last frames, once, after `ended`. A second call returns empty bytes.

        Until then a failure may still replace the end.
        """
        if not self.ended or self._is_concluded:
            return b""
        self._is_concluded = True
        return self._build_closing_frames()

    def _build_closing_frames(self) -> bytes:
        return self.closing_frames
