"""Notices an engine that is there and does nothing any more: it neither answers nor computes."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_MAX_MISSED_PINGS: Final = 2
"""Questions in a row that get no answer. After one the fault may be ours: whoever was stopped for a while finds that
all of its time is over at once."""

_IDLE_CPU_SHARE: Final = 0.02
"""Of a core, which is less than any engine takes that is at work. A busy one may be too busy to answer."""

_PROC: Final = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchdog:
    """How one engine is watched."""

    ping: Callable[[], Awaitable[object]]
    """Asks it something that only the part which computes can answer. What it raises is an answer, too: that it is dead
    is noticed elsewhere."""
    cpu_time_s: Callable[[], float | None]
    """The processor time it has taken; None where the system does not tell, and then it is never said to hang."""
    kill: Callable[[], object]
    """Ends it at once, so that whoever waits for it is told."""
    timeout_s: float
    """How long it may give no sign; 0: for ever."""

    async def wait_until_hung(self) -> str:
        """Wait until it gives no sign of life; the reason to end it, for people."""
        missed = 0
        before = self.cpu_time_s()
        while self.timeout_s:
            if await self._responds(self.timeout_s / _MAX_MISSED_PINGS):
                missed, before = 0, self.cpu_time_s()
                await asyncio.sleep(self.timeout_s / _MAX_MISSED_PINGS)
                continue
            missed += 1
            if missed >= _MAX_MISSED_PINGS:
                after = self.cpu_time_s()
                if before is not None and after is not None and after - before < _IDLE_CPU_SHARE * self.timeout_s:
                    break
                missed, before = 0, after
        else:
            await asyncio.Event().wait()
        return f"it gave no sign of life for {self.timeout_s:g} s"

    async def _responds(self, within_s: float) -> bool:
        with suppress(Exception):
            try:
                async with asyncio.timeout(within_s):
                    await self.ping()
            except TimeoutError:
                return False
        return True


async def wait_until_dead_or_hung(dead: Coroutine[Any, Any, str], watchdog: Watchdog) -> str:
    """Wait until an engine is dead, or hangs and is killed for it; why."""
    async with asyncio.TaskGroup() as tasks:
        dying, hanging = tasks.create_task(dead), tasks.create_task(watchdog.wait_until_hung())
        await asyncio.wait((dying, hanging), return_when=asyncio.FIRST_COMPLETED)
        if not dying.done():
            watchdog.kill()
        dying.cancel()
        hanging.cancel()
    return (dying if not dying.cancelled() else hanging).result()


async def ping_http(host: str, port: int, path: str, key: str) -> None:
    """Ask for a page on a connection of its own, and wait until the answer begins."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        lines = (f"GET {path} HTTP/1.1", f"Host: {host}:{port}", f"Authorization: Bearer {key}", "Connection: close")
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        await reader.readline()
    finally:
        writer.close()


def cpu_time_of(pids: Iterable[int]) -> float | None:
    """The processor time that these processes and all they started have taken, as far as they are still there."""
    if not (_PROC / "self/stat").exists():
        return None
    return sum(_cpu_ticks_of(pid) for pid in pids) / os.sysconf("SC_CLK_TCK")


def _cpu_ticks_of(pid: int) -> int:
    try:
        fields = (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
        children = [task.read_text().split() for task in (_PROC / f"{pid}/task").glob("*/children")]
    except OSError:
        return 0  # gone meanwhile
    return int(fields[11]) + int(fields[12]) + sum(_cpu_ticks_of(int(child)) for each in children for child in each)
