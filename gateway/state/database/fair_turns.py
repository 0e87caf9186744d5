"""Shares the connections of a database among owners. Knows no database."""

import asyncio
from collections import Counter, deque


class FairTurns:
    """Bounds how much work runs at once, in `places`, and how much of that is one owner's.

    An owner gets a further place only while more places are free than it holds. So one alone has half of them, a second
    one half of the rest, and there is room for who comes next. Owners that wait are served in rotation.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Owner -> those that wait. The first owner is the next one, and no owner is without any."""

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    async def enter(self, owner: str) -> None:
        """Waits for a place of this owner. The caller gives it back with `leave`."""
        if owner not in self._waiting and self._may_enter(owner):
            self._occupy(owner)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._remove(owner, turn)
            else:  # the place was given to a caller that was cancelled in the same step
                self.leave(owner)
            raise

    def leave(self, owner: str) -> None:
        """Gives a place back."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        is_given = True
        while is_given:
            is_given = False
            for waiting in list(self._waiting):
                if self._may_enter(waiting):
                    self._give_place(waiting)
                    is_given = True

    def _may_enter(self, owner: str) -> bool:
        return self._held[owner] < self._free

    def _occupy(self, owner: str) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _give_place(self, owner: str) -> None:
        turns = self._waiting.pop(owner)
        turn = turns.popleft()
        if turns:
            self._waiting[owner] = turns  # now the last one in the rotation
        if not turn.done():
            self._occupy(owner)
            turn.set_result(None)

    def _remove(self, owner: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(owner)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del self._waiting[owner]
