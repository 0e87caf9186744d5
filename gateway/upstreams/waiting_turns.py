"""The turns of one name that wait because none of its upstreams has a slot for them, and which of them gets a free one.

Each provider offers its free slots to owners in rotation (`gateway/upstreams/load.py`). The turns of one owner are
served in the order of their arrival, and one that cannot use a slot keeps its place. One owner may fill the queue. In a
full queue, its newest turns make room for those of owners with fewer.

A turn that waits is not sent to an ejected upstream: one failure would send the whole queue there. It waits for the
first upstream that is available again, and leaves the queue without one if all are parked until its time is over.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from dataplane.sharing.fair_turns import current_owner
from gateway.upstreams.candidates import Candidate
from gateway.upstreams.load import ProviderLoad, SlotSearch

_Decision: TypeAlias = Candidate | Literal["displaced", "hopeless"]


class PlaceLost(Exception):
    """A turn had to make room for one of another owner."""


class _WaitingTurn:
    __slots__ = ("candidates", "decided", "loads", "owner", "until")

    def __init__(self, owner: str, candidates: Sequence[Candidate], until: float) -> None:
        self.owner = owner
        self.candidates = tuple(candidates)
        self.loads = tuple({candidate.load: None for candidate in candidates})
        self.until = until
        """When the turn waits no longer."""
        self.decided: asyncio.Future[_Decision] = asyncio.get_running_loop().create_future()
        """Has the candidate whose slot the turn got, or why it leaves without one."""


class WaitingTurns:
    """The queue of one name in one process.

    A turn leaves the queue in the same step in which it gets a slot, loses its place or has no upstream to wait for. So
    only one of these happens to it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._length = 0
        self._owned: dict[str, dict[_WaitingTurn, None]] = {}
        """Owner -> its waiting turns, at least one, in the order of their arrival."""
        self._queues: dict[tuple[str, ProviderLoad], dict[_WaitingTurn, None]] = {}
        """The same for each provider whose slots they wait for, so that no others are looked at when one is free."""

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
        self._decide(next(reversed(longest)), "displaced")
        return True

    async def wait_for_slot(self, candidates: Sequence[Candidate], seconds: float) -> Candidate | None:
        """Waits until one of the candidates has a slot for the turn, which is then taken. Returns None if none has in
        time, or as soon as it is known that none will have.

        Raises PlaceLost if the turn has to leave the queue for one of another owner.
        """
        turn = _WaitingTurn(current_owner.get(), candidates, self._clock() + seconds)
        self._add(turn)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait((turn.decided,))  # which does not cancel the future
        except TimeoutError:
            pass  # it may have been decided at the last moment
        except BaseException:
            if turn.decided.done() and isinstance(granted := turn.decided.result(), Candidate):
                granted.health.end_attempt(turn)
                granted.load.end_attempt()
            raise
        finally:
            self._remove(turn)
        decision = turn.decided.result() if turn.decided.done() else "hopeless"
        if decision == "displaced":
            raise PlaceLost
        if decision == "hopeless":
            return None
        decision.health.end_attempt(turn)  # the caller's attempt becomes the trial, if there is one
        return decision

    def offer_slot(self, search: SlotSearch, owner: str) -> bool:
        """Gives a free slot to the first turn of the owner that can use it. Returns whether a turn took it.

        Turns without a reason to wait leave the queue.
        """
        load, now = search.load, search.now
        hopeless: list[_WaitingTurn] = []
        taker: tuple[_WaitingTurn, Candidate] | None = None
        for turn in self._queues.get((owner, load), ()):
            first_end = search.refused.get(turn.candidates)
            if first_end is None:
                if (chosen := choose_slot(turn.candidates, load, now)) is not None:
                    taker = (turn, chosen)
                    break
                first_end = search.refused[turn.candidates] = _find_first_return(turn, now)
                search.until = min(search.until, _find_first_end(turn.candidates, load, now))
            if first_end > turn.until:
                hopeless.append(turn)
        for turn in hopeless:
            self._decide(turn, "hopeless")
        if taker is None:
            return False
        turn, chosen = taker
        load.begin_attempt()
        chosen.health.begin_attempt(turn, now)  # else all free slots would be given to its trial
        self._decide(turn, chosen)
        for each in turn.loads:
            each.move_back(owner, self, is_served=each is load)
        return True

    def _decide(self, turn: _WaitingTurn, decision: _Decision) -> None:
        self._remove(turn)
        turn.decided.set_result(decision)

    def _add(self, turn: _WaitingTurn) -> None:
        now = self._clock()
        self._length += 1
        self._owned.setdefault(turn.owner, {})[turn] = None
        for load in turn.loads:
            self._queues.setdefault((turn.owner, load), {})[turn] = None
            is_usable = load.is_full or choose_slot(turn.candidates, load, now) is not None
            load.add_turn(turn.owner, self, -math.inf if is_usable else _find_first_end(turn.candidates, load, now))
        for load in turn.loads:
            load.offer_slots()

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


def choose_slot(candidates: Sequence[Candidate], load: ProviderLoad, now: float) -> Candidate | None:
    """Returns the candidate whose slot a waiting turn gets when a provider has a free one; None if it goes on
    waiting."""
    return next((each for each in candidates if each.load is load and each.find_state(now) == "available"), None)


def _find_first_end(candidates: Sequence[Candidate], load: ProviderLoad, now: float) -> float:
    """Returns when the first parking or ejection of the provider's candidates ends."""
    ends = [each.health.find_end(now) for each in candidates if each.load is load]
    return min((end for end in ends if end is not None), default=math.inf)


def _find_first_return(turn: _WaitingTurn, now: float) -> float:
    """Returns when the first upstream is available again if all of a turn are parked, and otherwise `now`."""
    if {each.find_state(now) for each in turn.candidates} != {"parked"}:
        return now
    return min(each.health.parked_until for each in turn.candidates)
