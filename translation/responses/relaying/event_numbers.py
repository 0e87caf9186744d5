"""The sequence numbers of a relayed stream: those of the upstream, raised by the events that it did not send."""

import orjson

from translation.errors import ProtocolViolation
from translation.framing import sse
from translation.framing.sse import Frame
from translation.representation.json_types import Json


class EventNumbers:
    """Counts the events of one stream, and numbers those that the relay adds."""

    __slots__ = ("_inserted", "count", "last_payload")

    def __init__(self) -> None:
        self.count = 0
        """How many events of the upstream were forwarded, or were sent in its place at the beginning."""
        self.last_payload = b""
        """The last event of the upstream that was forwarded."""
        self._inserted = 0
        """How many events were sent that the upstream did not send: the numbers of all further ones are higher."""

    def renumber(self, frame: Frame) -> Frame:
        """Returns a frame of the upstream with the number that the client gets; the same frame if that is its own."""
        if not self._inserted:
            return frame
        try:
            event = orjson.loads(frame.payload)
            event_type = sse.require_event_name(event["type"])
            number = event["sequence_number"] + self._inserted
            return build_frame(event_type, {**event, "sequence_number": number})
        except (orjson.JSONDecodeError, KeyError, ProtocolViolation, TypeError):
            return frame

    def insert_before(self, added: Json, event: Json) -> None:
        """Gives an added event the number of the event behind it, whose number then is one higher.

        Both stay as they are if the upstream does not number its events.
        """
        if isinstance(number := event.get("sequence_number"), int):
            added["sequence_number"], event["sequence_number"] = number, number + 1
            self._inserted += 1

    def find_next(self) -> int:
        """Returns the number after the last event's. If that has none, returns the number of events sent."""
        try:
            return int(orjson.loads(self.last_payload)["sequence_number"]) + 1
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return self.count

    def find_last_type(self) -> str | None:
        """Returns the type of the last event; None if it has none."""
        try:
            return str(orjson.loads(self.last_payload)["type"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None


def build_frame(event_type: str, event: Json) -> Frame:
    """Returns the frame of an event."""
    payload = orjson.dumps(event)
    return Frame(event_type, payload, sse.encode_event(event_type, payload))
