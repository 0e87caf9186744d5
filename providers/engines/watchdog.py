"""Detects an engine whose process exists but hangs: it neither responds nor computes."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_MAX_MISSED_PINGS: Final = 2
"""Pings in a row without a response after which an engine may hang. One is not enough: if the gateway itself was
paused, the time for a response is over at once when it continues."""

_IDLE_CPU_SHARE: Final = 0.02
"""The share of a CPU core below which an engine counts as idle. A working engine uses more, and may be too busy to
respond."""

_PROC: Final = Path("/proc")

_PF_EXITING: Final = 0x4


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchdog:
    """Watches one engine."""

    ping: Callable[[], Awaitable[object]]
    """Sends a request that only the computing part of the engine can respond to. An exception counts as a response,
    because a dead engine is detected elsewhere."""
    cpu_time_s: Callable[[], float | None]
    """Returns the CPU time that the engine has used. None: the system does not report it. Then the engine never counts
    as hung."""
    kill: Callable[[], object]
    """Kills the engine at once, so that code that waits for its end continues."""
    timeout_s: float
    """Seconds without a sign of life after which the engine counts as hung. 0: never."""

    async def wait_until_hung(self) -> str:
        """Waits until the engine hangs. Returns the reason to kill it, for people."""
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
    """Waits until the engine is dead, or hangs; a hung engine is killed. Returns the reason, for people.

    `dead` waits for the end of the engine and returns the reason for it.
    """
    async with asyncio.TaskGroup() as tasks:
        death, hang = tasks.create_task(dead), tasks.create_task(watchdog.wait_until_hung())
        await asyncio.wait((death, hang), return_when=asyncio.FIRST_COMPLETED)
        if not death.done():
            watchdog.kill()
        death.cancel()
        hang.cancel()
    return (death if not death.cancelled() else hang).result()


async def ping_http(host: str, port: int, path: str, key: str) -> None:
    """Requests `path` on a new connection, and waits for the first line of the reply."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        lines = (f"GET {path} HTTP/1.1", f"Host: {host}:{port}", f"Authorization: Bearer {key}", "Connection: close")
        writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        await reader.readline()
    finally:
        writer.close()


def read_cpu_time(pids: Iterable[int]) -> float | None:
    """Returns the CPU time in seconds of these processes and their descendants, as far as they still run. None if the
    system has no `/proc`."""
    if not (_PROC / "self/stat").exists():
        return None
    return sum(_read_cpu_ticks(pid) for pid in pids) / os.sysconf("SC_CLK_TCK")


def is_process_ending(pid: int) -> bool:
    """Whether a process has ended or is ending. Always False if the system has no `/proc`.

    A process that ends closes its connections first, and only then does its parent learn of its end. In between, its
    flags say that it is ending: `PF_EXITING` of `proc_pid_stat(5)`.
    """
    try:
        fields = (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return (_PROC / "self/stat").exists()
    return fields[0] in "ZX" or bool(int(fields[6]) & _PF_EXITING)


def _read_cpu_ticks(pid: int) -> int:
    try:
        fields = (_PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
        children = [task.read_text().split() for task in (_PROC / f"{pid}/task").glob("*/children")]
    except OSError:
        return 0  # the process has ended meanwhile
    return int(fields[11]) + int(fields[12]) + sum(_read_cpu_ticks(int(child)) for pids in children for child in pids)
