"""gateway/state/database/write_queue.py: owners take turns, and a group fits into a few milliseconds."""

import asyncio

import pytest

from gateway.state.database.write_queue import MAX_GROUP_BYTES, ROW_BYTES, ExclusiveTurn, GroupTurn, WriteQueue


def work(owner: str, size: int = ROW_BYTES) -> GroupTurn:
    return GroupTurn(owner, lambda _: None, size, asyncio.get_running_loop().create_future())


def exclusive(owner: str) -> ExclusiveTurn:
    loop = asyncio.get_running_loop()
    return ExclusiveTurn(owner, loop.create_future(), loop.create_future())


def queue_of(*turns: GroupTurn | ExclusiveTurn) -> WriteQueue:
    queue = WriteQueue()
    for turn in turns:
        queue.add(turn)
    return queue


async def test_small_waiting_writes_are_one_group() -> None:
    turns = [work("ann"), work("ann"), work("bob")]
    queue = queue_of(*turns)
    group = queue.take()
    assert isinstance(group, list)
    assert set(group) == set(turns)
    assert queue.take() is None


async def test_writes_of_one_owner_remain_in_order() -> None:
    first, second, third = work("ann"), work("ann"), work("ann")
    assert queue_of(first, second, third).take() == [first, second, third]


async def test_a_group_ends_where_the_next_write_does_not_fit() -> None:
    small, large = work("ann"), work("ann", MAX_GROUP_BYTES)
    queue = queue_of(small, large)
    assert [queue.take(), queue.take(), queue.take()] == [[small], [large], None]


async def test_an_owner_waits_for_one_turn_of_each_other_owner_and_not_for_all() -> None:
    mine = [exclusive("ann") for _ in range(50)]
    large = [work("bob", MAX_GROUP_BYTES + 1) for _ in range(50)]
    late = work("eve")
    queue = queue_of(*mine, *large, late)
    assert [queue.take(), queue.take(), queue.take()] == [mine[0], [large[0]], [late]]


async def test_an_exclusive_turn_is_not_overtaken_by_writes_that_would_fit() -> None:
    before, alone, after = work("ann"), exclusive("bob"), work("eve")
    queue = queue_of(before, alone, after)
    assert [queue.take(), queue.take(), queue.take()] == [[before], alone, [after]]


async def test_an_expired_write_is_dropped() -> None:
    late, other = work("ann"), work("bob")
    queue = queue_of(late, other)
    late.expire()
    assert queue.take() == [other]
    with pytest.raises(TimeoutError):
        await late.done


async def test_expiry_does_not_change_a_finished_write() -> None:
    turn = work("ann")
    turn.done.set_result("stored")
    turn.expire()
    assert await turn.done == "stored"


async def test_turns_whose_callers_have_left_are_dropped() -> None:
    first, second, third = work("ann"), exclusive("bob"), work("eve")
    queue = queue_of(first, second, third)
    first.done.cancel()
    second.ended.set_result(None)
    assert queue.take() == [third]
    assert not queue
