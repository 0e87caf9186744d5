"""Bodies that would stall the event loop are parsed in threads, and no others."""

import asyncio
import json
import threading
from functools import partial
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from dataplane import body_weight
from dataplane.body_weight import INLINE_BYTES, has_many_parts, run_for_items, weigh_body
from gateway.http.large_bodies import LargeBodyPool, LoopSlots

MEDIUM = 5
MESSAGE = {"role": "user", "content": [{"type": "input_text", "text": "x" * 700}]}

LIGHT = {
    "small": {"model": "m", "input": "x"},
    "a history of 500 items": {"model": "m", "input": [MESSAGE] * 500},
    "a history of 2,000 items": {"model": "m", "input": [MESSAGE] * 2000},
    "a text of a megabyte": {"model": "m", "input": "x" * 1024 * 1024},
}
HEAVY = {
    "300,000 words": {"model": "m", "include": ["x"] * 300_000},
    "900,000 items": {"model": "m", "input": [{}] * 900_000},
    "100,000 empty lists": {"model": "m", "input": [[]] * 100_000},
    "a text of 30 megabytes": {"model": "m", "input": "x" * 30 * 1024 * 1024},
}


@pytest.mark.parametrize("body", LIGHT.values(), ids=LIGHT)
def test_bodies_of_long_texts_are_light(body: object) -> None:
    assert weigh_body(orjson.dumps(body)).weight <= INLINE_BYTES


@pytest.mark.parametrize("body", HEAVY.values(), ids=HEAVY)
def test_bodies_of_many_values_and_giant_texts_are_heavy(body: object) -> None:
    assert weigh_body(orjson.dumps(body)).weight > INLINE_BYTES


def test_no_body_weighs_more_than_it_is_long() -> None:
    assert weigh_body(b"," * (INLINE_BYTES + 1)).weight == INLINE_BYTES + 1
    assert weigh_body(b"x" * 10).weight == 10


VALUES = some.recursive(
    some.none() | some.integers() | some.text(alphabet='a\\",[{:é'),
    lambda inner: some.lists(inner, min_size=1) | some.dictionaries(some.text(alphabet='a\\",[{'), inner, min_size=1),
)


def count(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, children))


@given(value=VALUES, inline_bytes=some.integers(min_value=1, max_value=40))
def test_a_light_body_has_no_more_values_than_its_weight(value: Any, inline_bytes: int) -> None:
    body = {"a": value}
    text = json.dumps(body, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_weight, "INLINE_BYTES", inline_bytes)
        weight = weigh_body(text).weight
    assert weight > inline_bytes or count(body) <= weight


async def test_bodies_of_medium_weight_leave_the_event_loop_to_others_between_them() -> None:
    pool = LargeBodyPool()
    order: list[int | str] = []

    async def others() -> None:
        while MEDIUM - 1 not in order:
            order.append("other")
            await asyncio.sleep(0)

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in range(MEDIUM):
            tasks.create_task(pool.call_weighed(INLINE_BYTES, order.append, number))
        tasks.create_task(others())
    assert [entry for entry in order if entry != "other"] == list(range(MEDIUM))
    assert all("other" in pair for pair in pairwise(order))


async def test_small_bodies_wait_for_no_turn() -> None:
    pool = LargeBodyPool()
    order: list[int | str] = []
    async with asyncio.TaskGroup() as tasks:
        for number in range(MEDIUM):
            tasks.create_task(pool.call_weighed(100, order.append, number))
        await asyncio.sleep(0)
        assert order == list(range(MEDIUM))


@pytest.mark.parametrize("has_turn", [False, True], ids=["before its turn", "as its turn comes"])
async def test_a_caller_that_leaves_gives_its_turn_to_the_next(has_turn: bool) -> None:
    slots = LoopSlots()
    await slots.wait_for_slot()
    first, leaving, last = (asyncio.create_task(slots.wait_for_slot()) for _ in range(3))
    await asyncio.sleep(0)
    if has_turn:
        await first
    leaving.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([first, leaving, last])
    assert leaving.cancelled()
    assert not last.cancelled()


def _stop(loop: asyncio.AbstractEventLoop, _: object) -> None:
    loop.stop()


def test_a_turn_of_a_loop_that_ended_is_over() -> None:
    slots = LoopSlots()

    async def take() -> None:
        async with asyncio.timeout(60):
            await slots.wait_for_slot()

    for _ in range(2):
        loop = asyncio.new_event_loop()
        loop.create_task(slots.wait_for_slot()).add_done_callback(partial(_stop, loop))
        loop.run_forever()
        loop.close()
    asyncio.run(take())


@pytest.mark.parametrize(("weight", "is_here"), [(INLINE_BYTES, True), (INLINE_BYTES + 1, False)])
def test_heavy_bodies_are_worked_on_in_another_thread(weight: int, is_here: bool) -> None:
    async def run() -> int:
        return await LargeBodyPool().call_weighed(weight, threading.get_ident)

    assert (asyncio.run(run()) == threading.get_ident()) is is_here


ITEM = {"type": "message", "role": "user", "content": "x"}
OF_PARTS = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}] * 2000}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}] * 2000}


@pytest.mark.parametrize(
    ("items", "are_many"),
    [([], False), ([ITEM] * 1500, False), ([ITEM] * 1501, True), ([OF_PARTS], True), ([OUTPUT], True)],
    ids=["none", "few", "many", "one of many parts", "an output of many parts"],
)
async def test_work_on_many_items_or_parts_is_done_in_a_thread(items: list[Any], are_many: bool) -> None:
    assert has_many_parts(items) is are_many
    assert (await run_for_items(items, threading.get_ident) != threading.get_ident()) is are_many
