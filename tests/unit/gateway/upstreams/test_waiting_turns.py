"""gateway/upstreams/waiting_turns.py, load.py: which of the turns that wait gets a free slot, and which has to leave a
full queue.

A turn has a label: the first letter is its owner.
"""

import asyncio
from collections.abc import Sequence

import pytest

from dataplane.sharing.fair_turns import current_owner
from gateway.upstreams.candidates import Candidate, prepare_candidates
from gateway.upstreams.health import UpstreamName
from gateway.upstreams.shared_turn import SharedTurn
from providers.errors import ProviderError, UpstreamOverloaded, UpstreamUnreachable
from tests.polling import wait_briefly
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
    crowd = Crowd(uniform(len(limits), limits=limits, queue_s=60, **routing))
    await crowd.fill()
    for label in labels:
        await crowd.join(label)
    assert len(crowd.queue) == len(labels)
    return crowd


ORDERS = {
    "two owners": ("a1 a2 a3 b1", "a1 b1 a2 a3"),
    "two owners with as many": ("a1 a2 a3 b1 b2 b3", "a1 b1 a2 b2 a3 b3"),
    "three owners": ("a1 a2 a3 b1 b2 c1", "a1 b1 c1 a2 b2 a3"),
    "turns that alternate": ("b1 a1 b2 a2", "b1 a1 b2 a2"),
    "one owner": ("a1 a2 a3", "a1 a2 a3"),
}


@pytest.mark.parametrize(("waiting", "expected"), ORDERS.values(), ids=ORDERS)
async def test_owners_are_served_in_rotation_and_the_turns_of_one_in_order(waiting: str, expected: str) -> None:
    crowd = await gather_crowd(*waiting.split())
    assert await crowd.end_all() == expected.split()
    await crowd.check_that_nothing_is_left()


async def test_an_owner_that_comes_waits_for_one_turn_of_each_other_owner() -> None:
    crowd = await gather_crowd("a1", "a2", "a3")
    crowd.holders.pop().succeed()
    assert await crowd.settle() == ["a1"]
    await crowd.join("b1")
    assert await crowd.end_all() == ["a1", "a2", "b1", "a3"]
    await crowd.check_that_nothing_is_left()


async def test_an_owner_gets_no_more_by_asking_for_many_names() -> None:
    crowd = await gather_crowd()
    for label, name in (("a1", "n"), ("a2", "o"), ("a3", "m"), ("a4", "n"), ("b1", "m"), ("b2", "m")):
        await crowd.join(label, name=name)
    assert await crowd.end_all() == ["a1", "b1", "a2", "b2", "a3", "a4"]
    await crowd.check_that_nothing_is_left()


async def test_an_owner_alone_gets_all_slots_and_the_whole_queue() -> None:
    labels = [f"a{number}" for number in range(6)]
    crowd = await gather_crowd(*labels, limits=(2, 1), queue_length=6)
    for holder in crowd.holders:
        holder.succeed()
    assert await crowd.settle() == labels[:3]
    crowd.holders.clear()
    assert await crowd.end_all() == labels
    await crowd.check_that_nothing_is_left()


async def test_a_turn_that_cannot_use_the_slot_keeps_its_place() -> None:
    crowd = await gather_crowd(limits=(1, 1))
    first, second = crowd.fleet.candidates
    for label, candidates in (("a1", [second]), ("a2", [first, second]), ("b1", [second]), ("a3", [second])):
        await crowd.join(label, candidates)
    crowd.holders[0].succeed()
    assert await crowd.settle() == ["a2"]
    await crowd.end("a2")
    assert await crowd.settle() == ["a2"]  # nobody else can use that slot
    assert first.load.in_flight == 0
    crowd.holders.pop(0)
    assert await crowd.end_all() == ["a2", "a1", "b1", "a3"]
    await crowd.check_that_nothing_is_left()


async def test_an_owner_whose_turns_cannot_use_the_slot_keeps_its_place() -> None:
    crowd = await gather_crowd()
    fleet = crowd.fleet
    parked = fleet.registry.build_candidate(1, UpstreamName("u0", "k"), "u0:k", 1.0, 0)
    for label, candidate in (("a1", parked), ("b1", fleet.candidates[0]), ("b2", fleet.candidates[0])):
        await crowd.join(label, [candidate])
    parked.health.park("rate_limit_exceeded", 60, fleet.clock.now)
    crowd.holders.pop().succeed()
    assert await crowd.settle() == ["b1"]
    fleet.clock.now += 61
    assert await crowd.end_all() == ["b1", "a1", "b2"]
    await crowd.check_that_nothing_is_left()


ROOMS = {
    "none is waiting": ("a1 a2", "b3", "a2"),
    "two fewer": ("a1 a2 b1 a3", "b2", "a3"),
    "the newest of the owner, and not of all": ("a1 a2 a3 b1", "c1", "a3"),
    "two owners with as many": ("a1 a2 b1 b2", "c1", "a2"),
    "one fewer": ("a1 a2 b1", "b2", None),
    "none against one": ("a1 b1", "c1", None),
    "as many": ("a1 b1", "b2", None),
    "the most": ("a1 a2 b1", "a3", None),
    "the only owner": ("a1 a2", "a3", None),
}


@pytest.mark.parametrize(("waiting", "newcomer", "leaves"), ROOMS.values(), ids=ROOMS)
async def test_in_a_full_queue_the_owner_with_the_most_makes_room_for_one_with_at_least_two_fewer(
    waiting: str, newcomer: str, leaves: str | None
) -> None:
    crowd = await gather_crowd(*waiting.split(), queue_length=len(waiting.split()))
    crowd.fleet.clock.now += 1
    await crowd.join(newcomer)
    refused = leaves or newcomer
    await crowd.settle()
    assert [label for label, task in crowd.tasks.items() if task.done()] == [refused]
    with pytest.raises(UpstreamOverloaded) as raised:
        await crowd.tasks.pop(refused)
    assert raised.value.headers == {"retry-after": "1"}
    turn = crowd.turns.pop(refused)
    assert (turn.limit, turn.attempt_count) == ("routing.queue_length", 0)
    assert ("queue_ms" in turn.describe()) is (leaves is not None)
    assert len(crowd.queue) == len(waiting.split())
    assert {*await crowd.end_all()} == {*waiting.split(), newcomer} - {refused}
    await crowd.check_that_nothing_is_left()


async def test_a_queue_without_places_takes_no_turn() -> None:
    crowd = await gather_crowd(queue_length=0)
    for label in ("a1", "b1"):
        await crowd.join(label)
        with pytest.raises(UpstreamOverloaded):
            await crowd.tasks[label]
        assert crowd.turns[label].limit == "routing.queue_length"
    repetitions = await gather_crowd("a1", "a2")  # which may always wait
    assert not repetitions.queue.make_room(0)
    assert await repetitions.end_all() == ["a1", "a2"]


async def test_a_repetition_that_makes_room_shows_the_failure_before() -> None:
    crowd = await gather_crowd(limits=(2, 1), queue_length=2)
    first, second = crowd.fleet.candidates
    repeated = [crowd.build_turn([first, second]) for _ in range(2)]
    for turn in repeated:
        crowd.holders.pop(0).succeed()
        assert await turn.begin() is first
    for turn in repeated:
        assert await turn.move_on(NO_CONNECTION)
        crowd.holders.append(crowd.build_turn([first]))
        await crowd.holders[-1].begin()
    tasks = [asyncio.create_task(turn.begin()) for turn in repeated]
    await wait_briefly(lambda: len(crowd.queue) == 2)
    await crowd.join("b1")
    with pytest.raises(ProviderError) as raised:
        await tasks[1]
    assert (raised.value, repeated[1].limit) == (NO_CONNECTION, "routing.queue_length")
    crowd.holders.pop(0).succeed()
    assert await tasks[0] is second
    repeated[0].succeed()
    assert await crowd.end_all() == ["b1"]
    await crowd.check_that_nothing_is_left()


async def test_a_turn_that_has_got_a_slot_does_not_make_room() -> None:
    crowd = await gather_crowd(limits=(1, 1), queue_length=2)
    first, second = crowd.fleet.candidates
    for label, candidate in (("a1", second), ("a2", first)):
        await crowd.join(label, [candidate])
    crowd.holders.pop(0).succeed()
    assert not crowd.tasks["a2"].done()  # the slot is its own, but it has not run yet
    assert crowd.queue.make_room(1) is False
    assert len(crowd.queue) == 1
    assert {*await crowd.end_all()} == {"a1", "a2"}
    await crowd.check_that_nothing_is_left()


LEAVES = {
    "while it waits": ("a1", "cancel, run, free"),
    "just before it gets a slot": ("a1", "cancel, free"),
    "just after it got a slot": ("a1", "free, cancel"),
    "just before it loses its place": ("a2", "cancel, displace, free"),
    "just after it lost its place": ("a2", "displace, cancel, free"),
}


@pytest.mark.parametrize(("leaving", "steps"), LEAVES.values(), ids=LEAVES)
async def test_a_turn_that_is_cancelled_leaves_nothing(leaving: str, steps: str) -> None:
    crowd = await gather_crowd("a1", "a2")
    for step in steps.split(", "):
        if step == "cancel":
            crowd.tasks[leaving].cancel()
        elif step == "free":
            crowd.holders.pop().succeed()
        elif step == "displace":
            assert crowd.queue.make_room(2)
        else:
            await asyncio.wait([crowd.tasks[leaving]])
    await asyncio.wait([crowd.tasks[leaving]])
    assert crowd.tasks.pop(leaving).cancelled()
    assert await crowd.end_all() == [*{"a1", "a2"} - {leaving}]
    await crowd.check_that_nothing_is_left()


async def wait_for_no_time(crowd: Crowd) -> asyncio.Task[Candidate | None]:
    """Returns a task that waits for a slot, but whose time will be over when it runs again."""
    task = asyncio.create_task(crowd.queue.wait_for_slot(crowd.fleet.candidates, 0))
    await asyncio.sleep(0)
    assert len(crowd.queue) == 1
    return task


async def test_a_slot_that_was_granted_at_the_last_moment_is_used() -> None:
    crowd = await gather_crowd()
    task = await wait_for_no_time(crowd)
    crowd.holders.pop().succeed()
    granted = await task
    assert granted is crowd.fleet.candidates[0]
    granted.load.end_attempt()
    await crowd.check_that_nothing_is_left()


async def test_a_turn_without_a_slot_leaves_when_its_time_is_over() -> None:
    crowd = await gather_crowd()
    assert await (await wait_for_no_time(crowd)) is None
    await crowd.end_all()
    await crowd.check_that_nothing_is_left()


async def gather_before_a_pause(
    *labels: str, seconds: float, limits: Sequence[int | None] = (1, 1), state: str = "parked"
) -> Crowd:
    """Returns turns that wait because the first upstream has a free slot but is parked or ejected, and the second is
    full."""
    crowd = Crowd(uniform(len(limits), limits=limits, queue_s=60, eject_s=seconds))
    await crowd.fill()
    health, now = crowd.fleet.candidates[0].health, crowd.fleet.clock.now
    crowd.holders.pop(0).succeed()
    for _ in range((limits[0] or 1) - 1):
        crowd.holders.pop(0).succeed()
    if state == "parked":
        health.park("rate_limit_exceeded", seconds, now)
    else:
        health.eject("failures", now)
    for label in labels:
        await crowd.join(label, crowd.fleet.candidates[:2])
    assert len(crowd.queue) == len(labels)
    return crowd


@pytest.mark.parametrize("state", ["parked", "ejected"])
@pytest.mark.parametrize(("waiting", "expected"), [("a1", "a1"), ("a1 a2 b1", "a1 b1 a2")], ids=["one", "many"])
async def test_turns_that_wait_get_the_slots_of_an_upstream_that_is_available_again(
    waiting: str, expected: str, state: str
) -> None:
    crowd = await gather_before_a_pause(*waiting.split(), seconds=SOON_S, state=state)
    crowd.fleet.clock.now += 1
    for label in expected.split():
        assert await crowd.end(label) is crowd.fleet.candidates[0]
    assert await crowd.end_all() == expected.split()
    await crowd.check_that_nothing_is_left()


async def test_the_first_of_two_pauses_of_a_provider_that_ends_is_enough() -> None:
    crowd = await gather_before_a_pause("a1", seconds=60)
    fleet = crowd.fleet
    other = fleet.registry.build_candidate(2, UpstreamName("u0", "k"), "u0:k", 1.0, 0)
    other.health.park("rate_limit_exceeded", SOON_S, fleet.clock.now)
    await crowd.join("b1", [other, fleet.candidates[1]])
    await crowd.join("c1")
    assert len(crowd.queue) == 3
    fleet.clock.now += 1
    assert await crowd.end("b1") is other
    assert await crowd.end_all() == ["b1", "a1", "c1"]
    fleet.clock.now += 60
    await crowd.check_that_nothing_is_left()


async def test_a_slot_that_became_free_during_a_pause_is_offered_at_its_end() -> None:
    crowd = await gather_crowd("a1")
    fleet = crowd.fleet
    fleet.candidates[0].health.park("rate_limit_exceeded", SOON_S, fleet.clock.now)
    crowd.holders.pop().succeed()
    assert await crowd.settle() == []
    fleet.clock.now += 1
    assert await crowd.end_all() == ["a1"]
    await crowd.check_that_nothing_is_left()


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["", "the first is cancelled"])
async def test_one_turn_that_waits_is_the_trial_and_the_others_follow_its_first_content(is_cancelled: bool) -> None:
    labels = ["a0", "a1", "a2"] if is_cancelled else ["a1", "a2"]
    crowd = await gather_before_a_pause(*labels, seconds=SOON_S, limits=(2, 1), state="ejected")
    crowd.fleet.clock.now += 1
    if is_cancelled:
        crowd.fleet.candidates[0].load.offer_slots()
        crowd.tasks.pop("a0").cancel()
    await crowd.tasks["a1"]
    assert await crowd.settle() == ["a1"]
    assert crowd.fleet.states()[0] == "trial"
    crowd.turns["a1"].observe_content()
    assert await crowd.tasks["a2"] is crowd.fleet.candidates[0]
    assert await crowd.end_all() == ["a1", "a2"]
    await crowd.check_that_nothing_is_left()


@pytest.mark.parametrize("way", ["succeeds", "leaves", "is taken back"])
async def test_the_end_of_a_trial_lets_the_next_turn_begin(way: str) -> None:
    crowd = await gather_before_a_pause("a1", "a2", seconds=SOON_S, limits=(1, 1), state="ejected")
    crowd.fleet.clock.now += 1
    await crowd.tasks.pop("a1")
    trial = crowd.turns["a1"]
    {"succeeds": trial.succeed, "leaves": trial.leave, "is taken back": trial.cancel}[way]()
    assert await crowd.end("a2") is crowd.fleet.candidates[0]
    await crowd.end_all()
    assert crowd.fleet.states()[0] == "available"
    await crowd.check_that_nothing_is_left()


@pytest.mark.parametrize("kind", ["a new turn", "a turn that was planned for it", "a repetition"])
async def test_no_turn_takes_a_free_slot_for_which_another_one_waits(kind: str) -> None:
    crowd = await gather_before_a_pause("a1", seconds=60, limits=(1, 1, None))
    fleet = crowd.fleet
    paused, _, unlimited = fleet.candidates
    turn = crowd.build_turn([paused, unlimited] if kind == "a repetition" else [paused])
    if kind == "a repetition":
        assert await turn.begin() is unlimited
    fleet.clock.now += 61  # and nothing has offered its slot yet
    if kind == "a repetition":
        assert await turn.move_on(NO_CONNECTION)
    elif kind == "a turn that was planned for it":
        assert turn.propose() is paused
    task = asyncio.create_task(turn.begin())
    assert await crowd.settle() == ["a1"]
    assert len(crowd.queue) == 1
    await crowd.end_all()
    assert await task is paused
    turn.succeed()
    await crowd.check_that_nothing_is_left()
