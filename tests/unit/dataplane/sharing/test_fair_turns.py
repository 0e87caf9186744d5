"""dataplane/sharing/fair_turns.py: an owner gets no more places than it leaves free for others."""

import asyncio

import pytest

from dataplane.sharing.fair_turns import NO_OWNER, FairTurns, PerLoop
from tests.polling import PROMPT_S


async def enter_all(turns: FairTurns, *owners: str) -> list[asyncio.Task[None]]:
    """Starts to enter once for each owner. Returns the tasks after those that can enter have done so."""
    tasks = [asyncio.create_task(turns.enter(owner)) for owner in owners]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_each_owner_gets_half_of_what_is_free() -> None:
    turns = FairTurns(16)
    tasks = [await enter_all(turns, *[owner] * 20) for owner in ("ann", "bob", "cid", "dan", "eve", "fay")]
    assert [sum(task.done() for task in owned) for owned in tasks] == [8, 4, 2, 1, 1, 0]
    for owned in tasks:
        await cancel(owned)


async def test_owners_that_wait_are_served_in_rotation() -> None:
    turns = FairTurns(1)
    await turns.enter("ann")
    order: list[str] = []

    async def take(owner: str) -> None:
        await turns.enter(owner)
        order.append(owner)
        turns.leave(owner)

    tasks = [asyncio.create_task(take(owner)) for owner in ("ann", "ann", "ann", "bob", "bob", "cid")]
    await asyncio.sleep(0)
    assert turns.has_waiting
    turns.leave("ann")
    await asyncio.gather(*tasks)
    assert order == ["ann", "bob", "cid", "ann", "bob", "ann"]
    assert not turns.has_waiting


@pytest.mark.parametrize("is_given", [False, True], ids=["before", "as it gets its place"])
async def test_a_caller_that_leaves_takes_no_place(is_given: bool) -> None:
    turns = FairTurns(1)
    await turns.enter("ann")
    leaving, staying = await enter_all(turns, "bob", "cid")
    if is_given:
        turns.leave("ann")
    leaving.cancel()
    if not is_given:
        await asyncio.wait({leaving})
        turns.leave("ann")
    async with asyncio.timeout(PROMPT_S):
        await staying
    assert leaving.cancelled()
    turns.leave("cid")
    await turns.enter("dan")


async def test_work_that_soon_ends_may_have_all_places_while_no_other_owner_waits() -> None:
    turns = FairTurns(4, reserves=False)
    await turns.enter("ann")
    tasks = await enter_all(turns, *["ann"] * 4, "bob")
    assert [task.done() for task in tasks] == [True, True, True, False, False]
    turns.leave("ann")
    turns.leave("ann")
    async with asyncio.timeout(PROMPT_S):
        await asyncio.gather(*tasks)


async def test_a_key_has_no_more_places_than_allowed() -> None:
    turns = FairTurns(4, reserves=False, most=3)
    assert [turns.try_enter(owner) for owner in ("ann", "ann", "ann", "ann", "bob", "cid")] == [
        *(True, True, True, False, True, False)
    ]
    without_keys = FairTurns(4, reserves=False, most=3)
    assert [without_keys.try_enter(NO_OWNER) for _ in range(5)] == [True] * 4 + [False]


def test_each_event_loop_has_a_value_of_its_own() -> None:
    values = PerLoop(lambda: object())

    async def read() -> tuple[object, object]:
        return values.get(), values.get()

    (first, again), (other, _) = asyncio.run(read()), asyncio.run(read())
    assert first is again
    assert first is not other
