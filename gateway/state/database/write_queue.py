"""The order in which writers of a SQLite database take turns. Knows no database.

Owners take turns, so that a writer with much to store delays others by one of its transactions and not by all of them.
The work of one owner is executed in order.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

Work: TypeAlias = Callable[[sqlite3.Connection], Any]

ROW_BYTES: Final = 1024
"""The size of one row in a piece of work, besides its text. Its indexes take longer than a short text."""

MAX_GROUP_BYTES: Final = 256 * 1024
"""The most that one group contains, unless it is a single piece of work. It takes a few milliseconds to write."""


class GroupTurn:
    """A piece of work that may share a transaction with others.

    `size` estimates the written bytes: text plus ROW_BYTES per row. `done` gets its result once the transaction has
    been committed. A caller that leaves cancels `done`.
    """

    __slots__ = ("done", "error", "owner", "result", "size", "work")

    def __init__(self, owner: str, work: Work, size: int, done: asyncio.Future[Any]) -> None:
        self.owner = owner
        self.work = work
        self.size = size
        self.done = done
        self.result: Any = None
        self.error: Exception | None = None

    @property
    def has_left(self) -> bool:
        """Whether the caller does not wait any more. Its work must then have no effect."""
        return self.done.done()

    def expire(self) -> None:
        """Lets the caller leave, with a TimeoutError."""
        if not self.done.done():
            self.done.set_exception(TimeoutError())


class ExclusiveTurn:
    """A turn in which the caller has the connection for itself, from `granted` until `ended`."""

    __slots__ = ("ended", "granted", "owner")

    def __init__(self, owner: str, granted: asyncio.Future[None], ended: asyncio.Future[None]) -> None:
        self.owner = owner
        self.granted = granted
        self.ended = ended

    @property
    def has_left(self) -> bool:
        """Whether the caller does not wait any more. A cancelled caller ends the turn only in its next step."""
        return self.granted.cancelled() or self.ended.done()


WriteTurn: TypeAlias = GroupTurn | ExclusiveTurn


class WriteQueue:
    """The turns that wait. Owners are served in rotation, the turns of one owner in the order of their arrival."""

    def __init__(self) -> None:
        self._turns: dict[str, deque[WriteTurn]] = {}
        """Owner -> its turns. The first owner is the next one, and no owner is without turns."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def add(self, turn: WriteTurn) -> None:
        turns = self._turns.get(turn.owner)
        if turns is None:
            self._turns[turn.owner] = deque((turn,))
        else:
            turns.append(turn)

    def take(self) -> ExclusiveTurn | list[GroupTurn] | None:
        """Removes and returns the next work: an exclusive turn, or a group that fits into MAX_GROUP_BYTES.

        Turns whose callers have left are dropped. Returns None if nothing waits.
        """
        group: list[GroupTurn] = []
        free_bytes = MAX_GROUP_BYTES
        while self._turns:
            owner = next(iter(self._turns))
            turn = self._turns[owner][0]
            if turn.has_left:
                self._remove_first(owner)
            elif isinstance(turn, ExclusiveTurn):
                if group:
                    break
                self._remove_first(owner)
                return turn
            else:
                if group and turn.size > free_bytes:
                    break
                self._remove_first(owner)
                group.append(turn)
                free_bytes -= turn.size
        return group or None

    def _remove_first(self, owner: str) -> None:
        """Removes the first turn of an owner, who then is the last in the rotation."""
        turns = self._turns.pop(owner)
        turns.popleft()
        if turns:
            self._turns[owner] = turns
