"""providers/lookups.py: names out of requests are looked up in threads that owners share."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dataplane.sharing.fair_turns import current_owner
from providers.lookups import look_up_host, look_up_upstream
from tests.polling import TIMEOUT_S, wait_until


class SlowNames:
    """A system resolver for which names below `slow.test` take until `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.waiting = 0
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *args: Any, **named: Any) -> Any:
        if str(host).endswith(".slow.test"):
            self.waiting += 1
            self.go_on.wait(2 * TIMEOUT_S)
            raise socket.gaierror(socket.EAI_AGAIN, "no reply")
        return self._real("127.0.0.1", port, *args, **named)


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    resolver = SlowNames()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.go_on.set()


async def look_up(owner: str, host: str) -> Any:
    current_owner.set(owner)
    return await look_up_host(host, 80)


async def test_slow_names_of_one_owner_delay_no_other_owner_and_no_upstream(slow_names: SlowNames) -> None:
    slow = [asyncio.create_task(look_up("ann", f"{number}.slow.test")) for number in range(8 * 16)]
    await wait_until(lambda: slow_names.waiting >= 16)
    async with asyncio.timeout(60):
        for owner in ("bob", "cid", ""):
            assert await look_up(owner, "fast.test") == ["127.0.0.1"]
        assert await look_up_upstream("fast.test", 80) == ["127.0.0.1"]
        assert slow_names.waiting == 16, "one owner has half of the threads"
        slow_names.go_on.set()
        failures = await asyncio.gather(*slow, return_exceptions=True)
    assert {type(failure) for failure in failures} == {socket.gaierror}


async def test_a_lookup_whose_caller_left_keeps_its_turn_until_it_ends(slow_names: SlowNames) -> None:
    for _ in range(3):
        slow = [asyncio.create_task(look_up("ann", f"{number}.slow.test")) for number in range(40)]
        await wait_until(lambda: slow_names.waiting >= 16)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)
    assert slow_names.waiting == 16
    slow_names.go_on.set()
    async with asyncio.timeout(60):
        assert await look_up("ann", "fast.test") == ["127.0.0.1"]


async def test_a_system_without_threads_cannot_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(40):
            with pytest.raises(OSError, match="new thread"):
                await look_up("ann", "fast.test")
    assert await look_up("ann", "127.0.0.1") == ["127.0.0.1"]
