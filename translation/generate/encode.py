"""Events → the stream and the answer of `/generate`."""

from collections.abc import Sequence

import orjson

from translation.framing import sse
from translation.generate.reply import GenerateReply
from translation.representation.delta_runs import DeltaRun, TextObserver
from translation.representation.events import Event, Failed
from translation.representation.json_types import Json


class GenerateEncoder:
    """Writes one stream: unnamed frames for the pieces, then one `done` frame with the whole reply, or one `error`."""

    def __init__(self, model: str) -> None:
        self.ended = False
        """Whether the turn is over; `conclude` then has the last frame."""
        self.response: Json | None = None
        """The whole reply, once it is."""
        self._reply = GenerateReply(model)
        self._closing_frame = b""
        self._is_concluded = False

    @property
    def failed(self) -> Failed | None:
        """How it ended badly."""
        return self._reply.failed

    def feed(self, batch: Sequence[Event]) -> bytes:
        """The frames of one batch, whole."""
        frames = [sse.encode_data(orjson.dumps(piece)) for piece in self._reply.feed(batch)]
        if self._reply.failed is not None:
            self.response = None
            self._end("error", {"error": _build_error(self._reply.failed)})
        elif self._reply.finished:
            self.response = self._reply.result()
            self._end("done", self.response)
        return b"".join(frames)

    def conclude(self) -> bytes:
        """Returns the closing frame, once, after `ended`; nothing the second time.

        Until then a `Failed` may still be fed: it takes the place of the end.
        """
        if not self.ended or self._is_concluded:
            return b""
        self._is_concluded = True
        return self._closing_frame

    def delta_template(self, _run: DeltaRun, _observers: Sequence[TextObserver]) -> None:
        """There is none: frames of this API are not written by template."""
        return

    def _end(self, event: str, payload: Json) -> None:
        self.ended = True
        self._closing_frame = sse.encode_event(event, orjson.dumps(payload))


class GenerateCollector:
    """Collects one reply. Ask for the `result` after Finished."""

    def __init__(self, model: str) -> None:
        self._reply = GenerateReply(model)

    def feed(self, batch: Sequence[Event]) -> None:
        """Take one batch."""
        self._reply.feed(batch)

    @property
    def failed(self) -> Failed | None:
        """How it ended badly; then there is no reply."""
        return self._reply.failed

    def result(self) -> Json:
        """The whole reply."""
        return self._reply.result()


def _build_error(failed: Failed) -> Json:
    return {"message": failed.message, "param": failed.param, "code": failed.code}
