"""The known load of one provider: attempts in progress, their limit, and the waiting requests that the upstream
reports."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final, Protocol

from providers.config import LoadReport

_REPORT_S: Final = 5.0
"""Seconds for which a report of waiting requests counts."""

_DECAY_S: Final = 10.0
"""Seconds after which an older time to first content counts less than half."""


class SlotSearch:
    """What one search for turns that can use the free slots of a provider has found so far. A turn that cannot use one
    cannot use one later in the same search either."""

    __slots__ = ("load", "now", "refused", "until")

    def __init__(self, load: "ProviderLoad", now: float) -> None:
        self.load = load
        self.now = now
        self.refused: dict[object, float] = {}
        """The candidates of turns that cannot use a slot, with a time that the waiter chooses."""
        self.until = math.inf
        """When the first parking or ejection ends that keeps turns from the slots."""


class SlotWaiter(Protocol):
    """The turns of one name that wait for a slot."""

    def offer_slot(self, search: SlotSearch, owner: str) -> bool:
        """Gives a free slot of the provider to the first turn of an owner that can use it. Returns whether a turn took
        it."""
        ...


class ProviderLoad:
    """The load of one provider in one process, over all names.

    A slot that becomes free goes to the owners whose turns wait, in rotation over all names. So an owner gets no more
    slots by asking for many names, and waits for one turn of each other owner at most. The names of one owner are
    served in rotation too. Owners and names move back only when they are served, and then for all providers for which
    the turn has waited: many upstreams of one name are no reason to serve an owner many times. But where it was not
    served itself, an owner moves back only once: its other turns may wait for this provider alone. An owner that is
    alone may have all slots.

    If no turn that waits can use a free slot, they are searched again only once one may be able to: another turn has
    come, `note_change` was called, or the first of the parkings and ejections that were in the way has ended. So it
    costs nothing that they wait while other turns of the provider come and go.
    """

    def __init__(self, limit: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.in_flight = 0
        self.report: LoadReport = "none"
        """Where the number of waiting requests comes from; `none` if the provider reports none."""
        self._clock = clock
        self._waiting = 0
        self._reported_at = float("-inf")
        self._waiters: dict[str, dict[SlotWaiter, None]] = {}
        """Owner -> the names in which its turns wait, at least one. The first owner and its first name are served
        next."""
        self._passed: set[str] = set()
        """The owners that have moved back here since they were last served here, because others served them."""
        self._has_changed = False
        """Whether `note_change` was called since the last search."""
        self._quiet_until = -math.inf
        """Until then no turn that waits can use a free slot, as far as the last search knows."""
        self._timer: tuple[float, asyncio.TimerHandle] | None = None
        """When free slots are offered again because a parking or an ejection has ended: nothing else happens then."""

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

    def note_change(self) -> None:
        """Records that the health of an upstream of the provider has changed, or the settings: turns may be able to use
        slots which none could use before, or have no upstream to wait for any more."""
        self._has_changed = True
        self._quiet_until = -math.inf

    def search_again(self) -> None:
        """Has the next slot that is free offered to all turns that wait."""
        self._quiet_until = -math.inf

    def offer_slots(self) -> bool:
        """Gives free slots to the turns that wait, as far as they can use them. Returns whether any took one."""
        if not self._waiters or (self.is_full and not self._has_changed):
            return False
        now = self._clock()
        if now < self._quiet_until:
            return False
        search, is_taken, searches_all = SlotSearch(self, now), False, False
        while self._waiters:
            if self._has_changed:  # also because the turn that got the last slot is a trial
                search, searches_all, self._has_changed = SlotSearch(self, now), True, False
            if self.is_full and not searches_all:
                break
            if not self._offer_slot(search):
                if not self.is_full:
                    self._rest_until(search.until)
                break
            is_taken = True
        return is_taken

    def _offer_slot(self, search: SlotSearch) -> bool:
        for owner, waiters in list(self._waiters.items()):  # turns may leave meanwhile
            for waiter in list(waiters):
                if waiter.offer_slot(search, owner):
                    return True
        return False

    def _rest_until(self, end: float) -> None:
        """Leaves the turns that wait alone until a time, and offers the slots again then."""
        self._quiet_until = end
        if not math.isfinite(end):
            return
        if self._timer is not None:
            if self._timer[0] <= end:
                return
            self._timer[1].cancel()
        self._timer = (end, asyncio.get_running_loop().call_later(end - self._clock(), self._offer_again))

    def _offer_again(self) -> None:
        self._timer = None
        self.search_again()  # a timer may fire a little early, and is set again then
        self.offer_slots()

    def add_turn(self, owner: str, waiter: SlotWaiter, quiet_until: float) -> None:
        """Records that one more turn of the owner waits. Until a time it cannot use free slots, if nothing changes."""
        self._waiters.setdefault(owner, {})[waiter] = None
        if quiet_until < self._quiet_until:
            self._rest_until(quiet_until)

    def remove_waiter(self, owner: str, waiter: SlotWaiter) -> None:
        """Records that no turn of the owner waits in this name any more."""
        waiters = self._waiters[owner]
        del waiters[waiter]
        if not waiters:
            del self._waiters[owner]
            self._passed.discard(owner)

    def move_back(self, owner: str, waiter: SlotWaiter, *, is_served: bool) -> None:
        """Puts an owner that was served behind all others, and the name behind the others of the owner. `is_served`
        says whether this provider served it."""
        if owner not in self._waiters:
            return
        if is_served:
            self._passed.discard(owner)
        elif owner in self._passed:
            return
        else:
            self._passed.add(owner)
        waiters = self._waiters.pop(owner)
        self._waiters[owner] = waiters
        if waiter in waiters:
            del waiters[waiter]
            waiters[waiter] = None

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
