"""Shares what one process has among owners: places, threads, iterations of the event loop. Knows none of these."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

NO_OWNER: Final = ""
"""Stands for an owner where work is the gateway's own, and where there are no keys."""

current_owner: ContextVar[str] = ContextVar("current_owner", default=NO_OWNER)
"""The owner for whom the running task works: the name of a key. Set when a request or a job begins."""

_T = TypeVar("_T")


class OwnerQueue:
    """A queue of waiting tasks. Owners are served in rotation, and the tasks of one owner in order."""

    def __init__(self) -> None:
        self.waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Owner -> the futures of its waiting tasks, at least one. The first owner is served next. Only for reading."""

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def __contains__(self, owner: str) -> bool:
        return owner in self.waiting

    def __iter__(self) -> Iterator[str]:
        """Returns the owners that wait now, the next one first."""
        return iter(list(self.waiting))

    def append(self, owner: str) -> asyncio.Future[None]:
        """Returns a future that is done when the owner's turn has come."""
        turn = asyncio.get_running_loop().create_future()
        self.waiting.setdefault(owner, deque()).append(turn)
        return turn

    def pop(self, owner: str) -> asyncio.Future[None]:
        """Returns the first future of an owner that waits. The owner is now the last one in the rotation."""
        turns = self.waiting.pop(owner)
        turn = turns.popleft()
        if turns:
            self.waiting[owner] = turns
        return turn

    def remove(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Removes a future that is no longer waited for, if it is still in the queue."""
        turns = self.waiting.get(owner)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del self.waiting[owner]

    def wake_next(self) -> bool:
        """Resolves the future whose turn has come. Returns False if nobody waits."""
        while self.waiting:
            turn = self.pop(next(iter(self.waiting)))
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    def clear(self) -> None:
        self.waiting.clear()


class FairTurns:
    """Bounds how much work runs at once, in `places`, and how much of that is one owner's.

    An owner gets a further place only while more places are free than it holds. So one alone has half of them, a second
    one half of the rest, and there is room for who comes next. Owners that wait are served in rotation. Without
    `reserves`, an owner may have all places while no other waits: that is for work that soon ends. `most` is the number
    of places that one owner may have at most, if it is a key.
    """

    def __init__(self, places: int, *, reserves: bool = True, most: int | None = None) -> None:
        self._free = places
        self._reserves = reserves
        self._most = places if most is None else most
        self._held: dict[str, int] = {}
        self._queue = OwnerQueue()

    @property
    def has_waiting(self) -> bool:
        return bool(self._queue)

    def try_enter(self, owner: str) -> bool:
        """Takes a place of this owner if it need not wait. The caller gives it back with `leave`."""
        held, free = self._held.get(owner, 0), self._free
        # Most callers meet nobody who waits and have few places: for them the first two comparisons decide.
        if (held >= free or held >= self._most or self._queue.waiting) and (
            owner in self._queue.waiting or not self._may_hold_more(owner, held)
        ):
            return False
        self._free = free - 1
        self._held[owner] = held + 1
        return True

    async def enter(self, owner: str) -> None:
        """Waits for a place of this owner. The caller gives it back with `leave`."""
        if self.try_enter(owner):
            return
        turn = self._queue.append(owner)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._queue.remove(owner, turn)
            else:  # the place was given to a caller that was cancelled in the same step
                self.leave(owner)
            raise

    def leave(self, owner: str) -> None:
        """Gives a place back."""
        self._free += 1
        if (held := self._held.pop(owner) - 1) > 0:
            self._held[owner] = held
        if self._queue.waiting:
            self._give_places()

    def _give_places(self) -> None:
        """Gives free places to those that wait, as far as their owners may hold more."""
        is_given = True
        while is_given:
            is_given = False
            for waiting in self._queue:
                if self._may_hold_more(waiting, self._held.get(waiting, 0)):
                    self._give_place(waiting)
                    is_given = True

    def _may_hold_more(self, owner: str, held: int) -> bool:
        """Whether an owner that holds so many places may have a further one."""
        if self._reserves:
            return held < self._free
        return self._free > 0 and (held < self._most or owner == NO_OWNER)

    def _give_place(self, owner: str) -> None:
        turn = self._queue.pop(owner)
        if not turn.done():
            self._free -= 1
            self._held[owner] = self._held.get(owner, 0) + 1
            turn.set_result(None)


class PerLoop(Generic[_T]):
    """A value for each event loop, built when it is first needed: what tasks of one loop wait for belongs to it."""

    def __init__(self, build: Callable[[], _T]) -> None:
        self._build = build
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, _T] = WeakKeyDictionary()

    def get(self) -> _T:
        """Returns the value of the running event loop."""
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            value = self._values[loop] = self._build()
        return value
