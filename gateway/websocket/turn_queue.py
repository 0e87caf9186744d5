"""Orders the turns of one connection, and caches the responses that later turns continue."""

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
    """Queues turns. Turns of one lane run one after the other, lanes run concurrently, at most `MAX_RUNNING` at once.

    At most `MAX_QUEUED` others wait. Together they have at most `max_bytes`.
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
        """Queues a turn. Raises InvalidRequest if its lane is one too many, and TooManyQueued if the queue is full."""
        if turn.lane is not None and turn.lane not in self._known_lanes:
            if len(self._known_lanes) >= MAX_LANES:
                raise InvalidRequest(
                    f"this connection already uses {MAX_LANES} different values of stream_id: use one of them, or open "
                    "another connection",
                    param="stream_id",
                    code="websocket_stream_limit_reached",
                )
            self._known_lanes.add(turn.lane)
        size = sum(queued.size for queued in self._queued) + turn.size
        if self._queued and (len(self._queued) >= MAX_QUEUED or size > self._max_bytes):
            raise TooManyQueued("too many turns are waiting on this connection: wait until some have ended")
        self._queued.append(turn)

    def pop_runnable(self) -> TurnRequest | None:
        """Removes and returns the next turn that may run now, or None. The caller `release`s its lane at its end."""
        if len(self._running_lanes) >= MAX_RUNNING:
            return None
        index = next((index for index, turn in enumerate(self._queued) if turn.lane not in self._running_lanes), None)
        if index is None:
            return None
        turn = self._queued.pop(index)
        self._running_lanes.add(turn.lane)
        return turn

    def release(self, lane: Lane) -> None:
        self._running_lanes.remove(lane)

    def clear(self) -> Sequence[TurnRequest]:
        """Removes and returns all waiting turns."""
        queued, self._queued = self._queued, []
        return queued


class CachedResponse(NamedTuple):
    """The items up to the end of one response. `size` is their approximate size as JSON, in bytes, and `weight` what
    they weigh."""

    response_id: str
    items: Sequence[Item]
    size: int
    weight: int = 0


class ResponseCache:
    """Responses that are in no store: the latest of each lane, together at most `max_bytes`. Lives as long as the
    connection."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._latest: dict[Lane, CachedResponse] = {}

    def map_items_by_id(self) -> Mapping[str, Sequence[Item]]:
        """Returns response id -> items of the responses that a turn of any lane can continue."""
        return {cached.response_id: cached.items for cached in self._latest.values()}

    def measure(self, response_id: str | None) -> tuple[int, int]:
        """Returns the size and the weight of a response; zeros if it is not here."""
        matches = (cached for cached in self._latest.values() if cached.response_id == response_id)
        return next(((cached.size, cached.weight) for cached in matches), (0, 0))

    def replace_latest(self, lane: Lane, cached: CachedResponse | None) -> None:
        """Sets the latest response of a lane. None stands for a response that is in a store.

        If the cache is full, responses are evicted whose lanes were updated longest ago.
        """
        self._latest.pop(lane, None)
        if cached is None or cached.size > self._max_bytes:
            return
        self._latest[lane] = cached
        while sum(cached.size for cached in self._latest.values()) > self._max_bytes:
            del self._latest[next(iter(self._latest))]

    def evict(self, lane: Lane, response_id: str | None) -> None:
        """Removes a response whose continuation failed, if it is the latest of this lane. Other lanes keep theirs."""
        if (cached := self._latest.get(lane)) is not None and cached.response_id == response_id:
            del self._latest[lane]
