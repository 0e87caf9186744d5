"""Builds the final state of responses whose run did not finish: cancelled ones, and those whose replica died."""

from collections.abc import Iterable

import orjson

from gateway.state.call_records import CallRecord
from gateway.state.values import LogEntry
from providers.new_id import new_id
from translation.framing import sse
from translation.representation.events import Failed
from translation.representation.json_types import Item, Json
from translation.responses.client.snapshot import Snapshot
from translation.responses.upstream.decode import ResponsesDecoder

INTERRUPTED_ERROR = {
    "code": "interrupted",
    "message": "The server that worked on this response stopped before it was complete. Send the request again.",
}


def build_cancelled_response(response: Json, output: list[Item]) -> Json:
    """Returns the response with status `cancelled`. `output` has the items produced until then."""
    return {**response, "status": "cancelled", "output": output}


def build_interrupted_response(response: Json, output: list[Item]) -> Json:
    """Returns the response with status `failed` and error code `interrupted`, for one that no worker runs any more."""
    return {**response, "status": "failed", "error": INTERRUPTED_ERROR, "output": output}


class LogOutput:
    """The output of a response from its event log, of which parts are added one after another.

    Adding takes some 10 µs for each event, so long parts are added in a thread.
    """

    def __init__(self, response: Json) -> None:
        self.last_sequence_number = -1
        self._frames = sse.FrameDecoder(is_own=True)
        self._decoder = ResponsesDecoder(new_id)
        self._snapshot = Snapshot(response, lambda: 0)

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Adds the next entries of the log."""
        for entry in entries:
            payloads = [frame.payload for frame in self._frames.feed(entry.frames)]
            self._snapshot.feed(self._decoder.decode_payloads(payloads))
            self.last_sequence_number = entry.last

    def build_items(self) -> list[Item]:
        """Returns the output items, once all entries are added. Items without an end are incomplete."""
        if self._snapshot.items:
            self._snapshot.apply(Failed("interrupted", "it ends here"))
        output: list[Item] = self._snapshot.response["output"]
        return output


def build_output_from_calls(calls: Iterable[CallRecord]) -> list[Item]:
    """Returns the items of calls in the journal of a response. Calls without a result are incomplete."""
    return [call.item if call.state == "finished" else {**call.item, "status": "incomplete"} for call in calls]


def encode_lifecycle_frame(event: str, response: Json, number: int) -> bytes:
    """Returns the server-sent event frame of an event that has the whole response, such as `response.created`.

    `number` is its sequence number.
    """
    return sse.encode_event(event, orjson.dumps({"type": event, "sequence_number": number, "response": response}))
