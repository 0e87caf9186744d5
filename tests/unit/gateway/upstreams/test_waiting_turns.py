"""gateway/upstreams/waiting_turns.py, load.py: which of the turns that wait gets a free slot, and which has to leave a
full queue."""

import asyncio

import pytest

from gateway.upstreams.candidates import Candidate
from gateway.upstreams.health import UpstreamName
from providers.errors import ProviderError, UpstreamOverloaded
from tests.polling import wait_briefly
from tests.unit.gateway.upstreams.crowd import NO_CONNECTION, Crowd, gather_crowd

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


OWNERS_OF_MANY = ("a0 a1 a2 a3 a4 a5 a6 a7 b0 c0", "a0 b0 c0 a1 a2 a3 a4 a5")


@pytest.mark.parametrize(
    ("waiting", "expected"), [("a1 a2 b1", "a1 b1"), OWNERS_OF_MANY], ids=["two upstreams", "eight"]
)
async def test_the_rotation_is_over_all_upstreams_that_may_serve_a_turn(waiting: str, expected: str) -> None:
    first = expected.split()
    crowd = await gather_crowd(*waiting.split(), limits=[1] * len(first))
    for number, holder in enumerate(crowd.holders, 1):
        holder.succeed()
        assert await crowd.settle() == first[:number]
    crowd.holders.clear()
    await crowd.end_all()
    await crowd.check_that_nothing_is_left()


async def test_the_names_of_one_owner_are_served_in_rotation_over_all_upstreams() -> None:
    crowd = await gather_crowd(limits=(1, 1))
    for label, name in (("a1", "m"), ("a2", "m"), ("a3", "n")):
        await crowd.join(label, name=name)
    assert await crowd.end_all() == ["a1", "a3", "a2"]
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
    assert await crowd.end_all() == ["a2", "b1", "a1", "a3"]  # the owner was served, although not by this upstream
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


async def test_an_owner_that_others_serve_is_passed_once_where_its_turn_waits_for_one_upstream() -> None:
    """Turns of the owner that are served by another upstream would put that turn behind all others again and again."""
    crowd = await gather_crowd(limits=(1, 1))
    first, second = crowd.fleet.candidates
    await crowd.join("x0", [first])
    for number in range(1, 9):
        await crowd.join(f"x{number}")
    for number in range(1, 5):
        await crowd.join(f"y{number}", [first])
    for _ in range(2):
        for candidate in (second, second, first):  # which is slower
            await crowd.end_at(candidate)
    assert crowd.served == ["x1", "x2", "y1", "x3", "x4", "x0"]
    await crowd.end_all()
    await crowd.check_that_nothing_is_left()
