"""The turns of one name that wait because all of its upstreams are full, and which of them gets a free slot.

Each provider offers its free slots to owners in rotation (`gateway/upstreams/load.py`). The turns of one owner are
served in the order of their arrival, and one that cannot use a slot keeps its place. One owner may fill the queue. In a
full queue, its newest turns make room for those of owners with fewer.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from dataplane.sharing.fair_turns import current_owner
from gateway.upstreams.candidates import Candidate
from gateway.upstreams.load import ProviderLoad


class PlaceLost(Exception):
    """A turn had to make room for one of another owner."""


class _WaitingTurn:
    __slots__ = ("candidates", "decided", "loads", "owner")

    def __init__(self, owner: str, candidates: Sequence[Candidate]) -> None:
        self.owner = owner
        self.candidates = candidates
        self.loads = tuple({candidate.load: None for candidate in candidates})
        self.decided: asyncio.Future[Candidate | None] = asyncio.get_running_loop().create_future()
        """Has the candidate whose slot the turn got; None if it lost its place."""


class WaitingTurns:
    """The queue of one name in one process.

    A turn leaves the queue in the same step in which it gets a slot or loses its place. So no turn gets both.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._length = 0
        self._owned: dict[str, dict[_WaitingTurn, None]] = {}
        """Owner -> its waiting turns, at least one, in the order of their arrival."""
        self._queues: dict[tuple[str, ProviderLoad], dict[_WaitingTurn, None]] = {}
        """The same for each provider whose slots they wait for, so that no others are looked at when one is free."""
        self._timers: dict[ProviderLoad, tuple[float, asyncio.TimerHandle]] = {}
        """When slots are offered again that were free while their upstream was parked or ejected."""

    def __len__(self) -> int:
        return self._length

    def make_room(self, most: int) -> bool:
        """Returns whether a turn of the current owner may wait in a queue of `most` places.

        If all are taken, the newest turn of the owner with the most has to leave, if that owner has at least two more.
        With one more, the two owners would only change their roles.
        """
        if self._length < most:
            return True
        longest = max(self._owned.values(), key=len, default={})
        if not most or len(longest) - len(self._owned.get(current_owner.get(), ())) < 2:
            return False
        newest = next(reversed(longest))
        self._remove(newest)
        newest.decided.set_result(None)
        return True

    async def wait_for_slot(self, candidates: Sequence[Candidate], seconds: float) -> Candidate | None:
        """Waits until one of the candidates has a free slot, which is then taken. Returns None if none has in time.

        Raises PlaceLost if the turn has to leave the queue for one of another owner.
        """
        turn = _WaitingTurn(current_owner.get(), candidates)
        self._add(turn)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait((turn.decided,))  # which does not cancel the future
        except TimeoutError:
            pass  # it may have been decided at the last moment
        except BaseException:
            if turn.decided.done() and (granted := turn.decided.result()) is not None:
                granted.health.end_attempt(turn)
                granted.load.end_attempt()
            raise
        finally:
            self._remove(turn)
        if not turn.decided.done():
            return None
        if (granted := turn.decided.result()) is None:
            raise PlaceLost
        granted.health.end_attempt(turn)  # the caller's attempt becomes the trial, if there is one
        return granted

    def offer_slot(self, load: ProviderLoad, owner: str) -> bool:
        """Gives a free slot to the first turn of the owner that can use it. Returns whether a turn took it."""
        now = self._clock()
        unavailable: set[Candidate] = set()
        for turn in self._queues[owner, load]:
            for candidate in turn.candidates:
                if candidate.load is not load or candidate in unavailable:
                    continue
                if candidate.find_state(now) == "available":
                    self._remove(turn)
                    load.begin_attempt()
                    candidate.health.begin_attempt(turn, now)  # else all free slots would be given to its trial
                    turn.decided.set_result(candidate)
                    return True
                unavailable.add(candidate)
        self._await_ends(unavailable, now)
        return False

    def _add(self, turn: _WaitingTurn) -> None:
        self._length += 1
        self._owned.setdefault(turn.owner, {})[turn] = None
        for load in turn.loads:
            queue = self._queues.setdefault((turn.owner, load), {})
            if not queue:
                load.add_waiter(turn.owner, self)
            queue[turn] = None
        self._await_ends(turn.candidates, self._clock())

    def _remove(self, turn: _WaitingTurn) -> None:
        """Removes a turn, if it is still in the queue."""
        owned = self._owned.get(turn.owner)
        if owned is None or turn not in owned:
            return
        self._length -= 1
        del owned[turn]
        if not owned:
            del self._owned[turn.owner]
        for load in turn.loads:
            queue = self._queues[turn.owner, load]
            del queue[turn]
            if not queue:
                del self._queues[turn.owner, load]
                load.remove_waiter(turn.owner, self)

    def _await_ends(self, candidates: Iterable[Candidate], now: float) -> None:
        """Has slots offered when the parking or ejection of their upstream ends: nothing else happens then."""
        for candidate in candidates:
            end, load = candidate.health.find_end(now), candidate.load
            if end is None:
                continue
            known = self._timers.get(load)
            if known is not None:
                if known[0] <= end:
                    continue
                known[1].cancel()
            timer = asyncio.get_running_loop().call_later(end - now, self._offer_again, load)
            self._timers[load] = (end, timer)

    def _offer_again(self, load: ProviderLoad) -> None:
        del self._timers[load]
        load.offer_slots()
