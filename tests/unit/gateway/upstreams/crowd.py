"""Turns of several owners that wait before one fleet.

A turn has a label: the first letter is its owner.
"""

import asyncio
from collections.abc import Sequence

from dataplane.sharing.fair_turns import current_owner
from gateway.upstreams.candidates import Candidate, prepare_candidates
from gateway.upstreams.shared_turn import SharedTurn
from providers.errors import UpstreamUnreachable
from tests.unit.gateway.upstreams.fleet_states import Fleet, uniform

SOON_S = 0.02
"""The rest of a parking or an ejection that a test waits for. The clock of the fleet only says that it is over."""
NO_CONNECTION = UpstreamUnreachable("no connection")


class Crowd:
    """Turns of several owners before one fleet whose slots are all taken at first."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.queue = fleet.sharing.state.waiting
        self.turns: dict[str, SharedTurn] = {}
        self.tasks: dict[str, asyncio.Task[Candidate]] = {}
        self.served: list[str] = []
        self.holders: list[SharedTurn] = []

    async def fill(self) -> None:
        """Takes all slots. The holders are in the order of their upstreams."""
        for candidate in self.fleet.candidates:
            for _ in range(candidate.load.limit or 0):
                holder = self.build_turn([candidate])
                assert await holder.begin() is candidate
                self.holders.append(holder)

    def build_turn(self, candidates: Sequence[Candidate], name: str = "m") -> SharedTurn:
        fleet = self.fleet
        sharing = fleet.sharing._replace(name=name, state=fleet.registry.find_name(name))
        return SharedTurn(sharing, prepare_candidates(candidates), clock=fleet.clock, rng=fleet.rng)

    async def join(self, label: str, candidates: Sequence[Candidate] = (), name: str = "m") -> None:
        """Begins a turn that has to wait, and returns when it waits or was refused."""
        turn = self.turns[label] = self.build_turn(candidates or self.fleet.candidates, name)

        async def begin() -> Candidate:
            current_owner.set(label[0])
            candidate = await turn.begin()
            self.served.append(label)
            return candidate

        self.tasks[label] = asyncio.create_task(begin())
        await asyncio.sleep(0)  # it has run until it waits

    async def settle(self) -> list[str]:
        """Lets turns that got a slot begin, and returns the labels of all that have begun."""
        for _ in range(4):
            await asyncio.sleep(0)
        return self.served

    async def end(self, label: str) -> Candidate:
        """Waits until a turn has begun, and ends it. Returns its upstream."""
        candidate = await self.tasks.pop(label)
        self.turns.pop(label).succeed()
        return candidate

    async def end_at(self, candidate: Candidate) -> None:
        """Ends a turn that an upstream with one slot serves, or its holder, and lets the next one begin."""
        for holder in self.holders:
            if holder.attempt is not None and holder.attempt.candidate is candidate:
                self.holders.remove(holder)
                holder.succeed()
                break
        else:
            (label,) = [label for label, task in self.tasks.items() if task.done() and task.result() is candidate]
            await self.end(label)
        await self.settle()

    async def end_all(self) -> list[str]:
        """Ends the holders, and each turn as soon as it has begun. Returns the labels in that order."""
        for holder in self.holders:
            holder.succeed()
        while self.tasks:
            await asyncio.wait(self.tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for label in [label for label, task in self.tasks.items() if task.done()]:
                await self.end(label)
        return self.served

    async def check_that_nothing_is_left(self) -> None:
        assert len(self.queue) == 0
        assert [each.load.in_flight for each in self.fleet.candidates] == [0] * len(self.fleet.candidates)
        for candidate in self.fleet.candidates:
            turn = self.build_turn([candidate])
            await turn.begin()
            turn.succeed()  # a turn that was still known to the provider would be offered the slot
            assert candidate.load.in_flight == 0


async def gather_crowd(*labels: str, limits: Sequence[int] = (1,), **routing: object) -> Crowd:
    """Returns turns that wait in this order."""
    crowd = Crowd(uniform(len(limits), limits=limits, **{"queue_s": 60, **routing}))
    await crowd.fill()
    for label in labels:
        await crowd.join(label)
    assert len(crowd.queue) == len(labels)
    return crowd
