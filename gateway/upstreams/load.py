"""The known load of one provider: attempts in progress, their limit, and the waiting requests that the upstream
reports."""

import math
from typing import Final, Protocol

from providers.config import LoadReport

_REPORT_S: Final = 5.0
"""Seconds for which a report of waiting requests counts."""

_DECAY_S: Final = 10.0
"""Seconds after which an older time to first content counts less than half."""


class SlotWaiter(Protocol):
    """The turns of one name that wait for a slot."""

    def offer_slot(self, load: "ProviderLoad", owner: str) -> bool:
        """Gives a free slot of the provider to the first turn of an owner that can use it. Returns whether a turn took
        it."""
        ...


class ProviderLoad:
    """The load of one provider in one process, over all names.

    A slot that becomes free goes to the owners whose turns wait, in rotation over all names. So an owner gets no more
    slots by asking for many names, and waits for one turn of each other owner at most. The names of one owner are
    served in rotation too. Owners and names move back only when they are served. An owner that is alone may have all
    slots.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.in_flight = 0
        self.report: LoadReport = "none"
        """Where the number of waiting requests comes from; `none` if the provider reports none."""
        self._waiting = 0
        self._reported_at = float("-inf")
        self._waiters: dict[str, dict[SlotWaiter, None]] = {}
        """Owner -> the names in which its turns wait, at least one. The first owner and its first name are served
        next."""

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.in_flight >= self.limit

    def begin_attempt(self) -> None:
        self.in_flight += 1

    def end_attempt(self) -> None:
        """Frees the slot of one attempt, and gives it to a waiting turn."""
        self.in_flight -= 1
        if self._waiters:
            self.offer_slots()

    def offer_slots(self) -> bool:
        """Gives free slots to the turns that wait, as far as they can use them. Returns whether any took one."""
        is_taken = False
        while self._waiters and not self.is_full and self._offer_slot():
            is_taken = True
        return is_taken

    def _offer_slot(self) -> bool:
        for owner, waiters in self._waiters.items():
            for waiter in waiters:
                if waiter.offer_slot(self, owner):  # which may have removed both
                    if waiter in waiters:
                        del waiters[waiter]
                        waiters[waiter] = None
                    if self._waiters.pop(owner, None) is not None:
                        self._waiters[owner] = waiters
                    return True
        return False

    def add_waiter(self, owner: str, waiter: SlotWaiter) -> None:
        self._waiters.setdefault(owner, {})[waiter] = None

    def remove_waiter(self, owner: str, waiter: SlotWaiter) -> None:
        waiters = self._waiters[owner]
        del waiters[waiter]
        if not waiters:
            del self._waiters[owner]

    def report_waiting(self, count: int, now: float) -> None:
        """Records how many requests wait in the upstream, as it reports."""
        self._waiting, self._reported_at = count, now

    def count_turns(self, now: float) -> int:
        """Returns the attempts in progress and the requests that wait in the upstream, as far as that is known."""
        return self.in_flight + self._waiting if now - self._reported_at <= _REPORT_S else self.in_flight

    def find_waiting(self, now: float) -> int:
        """Returns the reported number of waiting requests; 0 if there is no fresh report."""
        return self._waiting if now - self._reported_at <= _REPORT_S else 0


class ContentTimes:
    """The time to first content of one upstream: a moving average that rises to a slower sample at once, and falls
    gradually."""

    def __init__(self) -> None:
        self._average: float | None = None
        self._sampled_at = 0.0

    @property
    def average(self) -> float | None:
        """The average in seconds; None without samples."""
        return self._average

    def add(self, seconds: float, now: float) -> None:
        """Adds a sample. A faster one has a weight that grows with the time since the last sample."""
        if self._average is None or seconds >= self._average:
            self._average = seconds
        else:
            share = 1 - math.exp(-(now - self._sampled_at) / _DECAY_S)
            self._average += share * (seconds - self._average)
        self._sampled_at = now
