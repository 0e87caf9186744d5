"""In which order the turns of one connection run, and what it remembers between them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gateway.errors import TooManyQueued
from gateway.websocket.events import Lane, TurnRequest
from translation.errors import InvalidRequest
from translation.representation.json_types import Item

MAX_RUNNING = 16
MAX_LANES = 32
MAX_QUEUED = 64


class TurnQueue:
    """One turn after the other in each lane, lanes side by side, `MAX_RUNNING` turns at once.

    The others wait: `MAX_QUEUED` of them, and not more than `max_bytes` together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._known_lanes: set[str] = set()
        self._running_lanes: set[Lane] = set()
        self._queued: list[TurnRequest] = []

    @property
    def running_count(self) -> int:
        return len(self._running_lanes)

    def put(self, turn: TurnRequest) -> None:
        """Queue a turn. Raises InvalidRequest for a lane too many, TooManyQueued."""
        if turn.lane is not None and turn.lane not in self._known_lanes:
            if len(self._known_lanes) >= MAX_LANES:
                raise InvalidRequest(
                    f"this connection has its {MAX_LANES} different values of stream_id: use one of them, or open "
                    "another connection",
                    param="stream_id",
                    code="websocket_stream_limit_reached",
                )
            self._known_lanes.add(turn.lane)
        size = sum(queued.size for queued in self._queued) + turn.size
        if self._queued and (len(self._queued) >= MAX_QUEUED or size > self._max_bytes):
            raise TooManyQueued("too many turns are waiting on this connection: let some end first")
        self._queued.append(turn)

    def pop_runnable(self) -> TurnRequest | None:
        """The next turn that may run now; `done` is owed for it."""
        if len(self._running_lanes) >= MAX_RUNNING:
            return None
        place = next((place for place, turn in enumerate(self._queued) if turn.lane not in self._running_lanes), None)
        if place is None:
            return None
        turn = self._queued.pop(place)
        self._running_lanes.add(turn.lane)
        return turn

    def release(self, lane: Lane) -> None:
        self._running_lanes.remove(lane)

    def clear(self) -> Sequence[TurnRequest]:
        """Everything that waits, which will not run."""
        queued, self._queued = self._queued, []
        return queued


class CachedResponse(NamedTuple):
    """Everything up to and including one response; `size` is about how many bytes it is as JSON."""

    response_id: str
    items: Sequence[Item]
    size: int


class ResponseCache:
    """Responses that are in no store: the latest of each lane, `max_bytes` together, gone with the connection."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._latest: dict[Lane, CachedResponse] = {}

    def items_by_id(self) -> Mapping[str, Sequence[Item]]:
        """What can be continued, from whichever lane."""
        return {cached.response_id: cached.items for cached in self._latest.values()}

    def size_of(self, response_id: str | None) -> int:
        return next((cached.size for cached in self._latest.values() if cached.response_id == response_id), 0)

    def replace_latest(self, lane: Lane, cached: CachedResponse | None) -> None:
        """The lane has a new latest response; None: one that is in a store. The lane that waited longest gives way."""
        self._latest.pop(lane, None)
        if cached is None or cached.size > self._max_bytes:
            return
        self._latest[lane] = cached
        while sum(cached.size for cached in self._latest.values()) > self._max_bytes:
            del self._latest[next(iter(self._latest))]

    def evict(self, lane: Lane, response_id: str | None) -> None:
        """Forget a response whose continuation failed; for other lanes it stays what it was."""
        if (cached := self._latest.get(lane)) is not None and cached.response_id == response_id:
            del self._latest[lane]
