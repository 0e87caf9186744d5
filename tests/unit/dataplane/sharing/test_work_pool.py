"""dataplane/sharing/work_pool.py: owners take turns in the threads for heavy work."""

import asyncio
import threading

import pytest

from dataplane.sharing.fair_turns import current_owner
from dataplane.sharing.work_pool import run_in_pool
from tests.polling import TIMEOUT_S, wait_until

THREADS = 2


async def run_for(owner: str, function, *args):
    current_owner.set(owner)
    return await run_in_pool(function, *args)


async def test_one_piece_of_work_of_another_owner_goes_before_the_rest_of_a_crowd() -> None:
    gate, order = threading.Event(), list[str]()

    def work(owner: str) -> None:
        gate.wait(TIMEOUT_S)
        order.append(owner)

    crowd = [asyncio.create_task(run_for("ann", work, "ann")) for _ in range(20)]
    await asyncio.sleep(0)
    single = asyncio.create_task(run_for("bob", work, "bob"))
    await asyncio.sleep(0)
    gate.set()
    async with asyncio.timeout(60):
        await asyncio.gather(single, *crowd)
    assert "bob" in order[: THREADS + 2]  # after what ran, and perhaps beside the next of the crowd


async def test_work_keeps_its_thread_when_its_caller_leaves() -> None:
    gate, running = threading.Event(), list[int]()

    def work() -> None:
        running.append(threading.get_ident())
        gate.wait(TIMEOUT_S)

    crowd = [asyncio.create_task(run_for("ann", work)) for _ in range(THREADS)]
    await wait_until(lambda: len(running) == THREADS)
    for task in crowd:
        task.cancel()
    await asyncio.wait(crowd)
    late = asyncio.create_task(run_for("bob", threading.get_ident))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not late.done()
    gate.set()
    async with asyncio.timeout(60):
        assert await late != threading.get_ident()


async def test_an_error_of_the_work_reaches_its_caller() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await run_in_pool(int, "x")
