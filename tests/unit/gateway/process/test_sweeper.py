"""gateway/process/sweeper.py"""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from gateway.config.settings import StoreSettings
from gateway.errors import StoreUnavailable
from gateway.process.sweeper import run_sweeper
from translation.representation.json_types import Json

WAIT_S = 10.0


class Swept:
    """A store that fails as configured before it deletes, and signals when it was called often enough."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked: list[int] = []
        self.done = asyncio.Event()

    async def delete_expired(self, *, before: int) -> int:
        self.asked.append(before)
        if self.failures:
            raise self.failures.pop()
        self.done.set()
        return 1

    async def erase_owner(self, owner: str) -> int:
        raise NotImplementedError

    def export_owner(self, owner: str) -> AsyncGenerator[Json, None]:
        raise NotImplementedError


async def swept(store: Swept, settings: StoreSettings) -> None:
    async with run_sweeper(store, settings):
        await asyncio.wait_for(store.done.wait(), WAIT_S)


async def test_expired_objects_are_deleted() -> None:
    store = Swept()
    await swept(store, StoreSettings(ttl_days=2, sweep_s=0.01))
    assert abs(store.asked[0] - (time.time() - 2 * 86_400)) < WAIT_S


@pytest.mark.parametrize("failure", [StoreUnavailable("down"), ValueError("a bug")])
async def test_the_sweeper_continues_after_a_failure(failure: Exception) -> None:
    store = Swept(failure, failure)
    await swept(store, StoreSettings(sweep_s=0.01))
    assert len(store.asked) == 3


async def test_the_sweeper_ends_with_its_block() -> None:
    store = Swept()
    with pytest.raises(ExceptionGroup) as raised:
        async with run_sweeper(store, StoreSettings(sweep_s=1000)):
            raise KeyError("the server's own end")
    assert isinstance(raised.value.exceptions[0], KeyError)
    assert store.asked == []
