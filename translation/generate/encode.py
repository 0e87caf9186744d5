"""Encodes events as the stream of `/generate`, and collects them for its JSON reply."""

from collections.abc import Sequence

import orjson

from translation.encoding.event_encoder import StreamEnd
from translation.framing import sse
from translation.generate.reply import GenerateReply
from translation.representation.delta_runs import DeltaRun, TextObserver
from translation.representation.events import Event, Failed
from translation.representation.json_types import Json


class GenerateEncoder(StreamEnd):
    """Encodes a stream: unnamed frames with the pieces, then one `done` frame with the whole reply, or an `error`."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.response: Json | None = None
        """The whole reply once the turn has ended without a failure, else None."""
        self._reply = GenerateReply(model)

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Returns the whole frames of one batch."""
        frames = [sse.encode_data(orjson.dumps(piece)) for piece in self._reply.feed(batch)]
        self.failed = self._reply.failed
        if self.failed is not None:
            self.response = None
            self._end("error", {"error": _build_error(self.failed)})
        elif self._reply.finished:
            self.response = self._reply.result()
            self._end("done", self.response)
        return b"".join(frames)

    def build_delta_template(self, _run: DeltaRun, _observers: Sequence[TextObserver]) -> None:
        """Returns None: this encoder has no delta template, so every delta has to be fed."""
        return

    def _end(self, event: str, payload: Json) -> None:
        self.ended = True
        self.closing_frames = sse.encode_event(event, orjson.dumps(payload))


class GenerateCollector:
    """Collects one reply. `result` may be called after Finished."""

    def __init__(self, model: str) -> None:
        self._reply = GenerateReply(model)

    def feed(self, batch: Sequence[Event]) -> None:
        """Adds one batch."""
        self._reply.feed(batch)

    @property
    def failed(self) -> Failed | None:
        """The failure that ended the turn; None if it did not fail. A failed turn has no reply."""
        return self._reply.failed

    def result(self) -> Json:
        """Returns the whole reply."""
        return self._reply.result()


def _build_error(failed: Failed) -> Json:
    return {"message": failed.message, "param": failed.param, "code": failed.code}
