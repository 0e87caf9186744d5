"""In which order the turns of one connection run, and what it remembers between them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.errors import TooManyQueued
from gateway.websocket.events import Create, Lane
from translation.errors import InvalidRequest
from translation.representation.json_types import Item

MAX_RUNNING = 16
MAX_NAMED = 32
MAX_QUEUED = 64


class Lanes:
    """One turn after the other in each lane, lanes side by side, `MAX_RUNNING` turns at once.

    The others wait: `MAX_QUEUED` of them, and not more than `max_bytes` together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._named: set[str] = set()
        self._busy: set[Lane] = set()
        self._queued: list[Create] = []

    @property
    def running(self) -> int:
        return len(self._busy)

    def put(self, turn: Create) -> None:
        """Queue a turn. Raises InvalidRequest for a lane too many, TooManyQueued."""
        if turn.lane is not None and turn.lane not in self._named:
            if len(self._named) >= MAX_NAMED:
                raise InvalidRequest(
                    f"this connection has its {MAX_NAMED} different values of stream_id: use one of them, or open "
                    "another connection",
                    param="stream_id",
                    code="websocket_stream_limit_reached",
                )
            self._named.add(turn.lane)
        size = sum(queued.size for queued in self._queued) + turn.size
        if self._queued and (len(self._queued) >= MAX_QUEUED or size > self._max_bytes):
            raise TooManyQueued("too many turns are waiting on this connection: let some end first")
        self._queued.append(turn)

    def take(self) -> Create | None:
        """The next turn that may run now; `done` is owed for it."""
        if len(self._busy) >= MAX_RUNNING:
            return None
        place = next((place for place, turn in enumerate(self._queued) if turn.lane not in self._busy), None)
        if place is None:
            return None
        turn = self._queued.pop(place)
        self._busy.add(turn.lane)
        return turn

    def done(self, lane: Lane) -> None:
        self._busy.remove(lane)

    def give_up(self) -> Sequence[Create]:
        """Everything that waits, which will not run."""
        queued, self._queued = self._queued, []
        return queued


class Kept(NamedTuple):
    """Everything up to and including one response; `size` is about how many bytes it is as JSON."""

    response_id: str
    items: Sequence[Item]
    size: int


class Memory:
    """Responses that are in no store: the latest of each lane, `max_bytes` together, gone with the connection."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._latest: dict[Lane, Kept] = {}

    def by_id(self) -> Mapping[str, Sequence[Item]]:
        """What can be continued, from whichever lane."""
        return {kept.response_id: kept.items for kept in self._latest.values()}

    def size(self, response_id: str | None) -> int:
        return next((kept.size for kept in self._latest.values() if kept.response_id == response_id), 0)

    def advance(self, lane: Lane, kept: Kept | None) -> None:
        """The lane has a new latest response; None: one that is in a store. The lane that waited longest gives way."""
        self._latest.pop(lane, None)
        if kept is None or kept.size > self._max_bytes:
            return
        self._latest[lane] = kept
        while sum(kept.size for kept in self._latest.values()) > self._max_bytes:
            del self._latest[next(iter(self._latest))]

    def evict(self, lane: Lane, response_id: str | None) -> None:
        """Forget a response whose continuation failed; for other lanes it stays what it was."""
        if (kept := self._latest.get(lane)) is not None and kept.response_id == response_id:
            del self._latest[lane]
