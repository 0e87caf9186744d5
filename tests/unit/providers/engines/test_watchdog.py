"""providers/engines/watchdog.py: a hanging engine is killed, and a slow or busy one is left alone."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.engines import watchdog as watching
from providers.engines.watchdog import Watchdog, ping_http, read_cpu_time, wait_until_dead_or_hung
from tests.polling import reach

pytestmark = pytest.mark.anyio

HANG_S = 0.1
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="the system does not tell of processor time")


class Engine:
    """An engine whose probes return `replies`, the last one for ever. It computes `busy` seconds between two probes."""

    def __init__(self, *replies: str, busy: float = 0.0) -> None:
        self.replies = list(replies)
        self.busy = busy
        self.used = 0.0
        self.asked = 0
        self.killed = False
        self.often_enough = asyncio.Event()

    async def ping(self) -> None:
        self.asked += 1
        if self.asked > 6:
            self.often_enough.set()
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply == "nothing":
            await asyncio.Event().wait()
        if reply == "refusal":
            raise ConnectionResetError

    def kill(self) -> None:
        self.killed = True

    def used_s(self) -> float | None:
        self.used += self.busy
        return self.used

    def watch(self, patience_s: float = HANG_S) -> Watchdog:
        return Watchdog(ping=self.ping, cpu_time_s=self.used_s, kill=self.kill, timeout_s=patience_s)


async def never() -> str:
    await asyncio.Event().wait()
    return "not yet"


async def test_an_engine_that_neither_replies_nor_computes_is_killed_and_the_reason_reported() -> None:
    engine = Engine("answer", "nothing")
    async with asyncio.timeout(60):
        assert await wait_until_dead_or_hung(never(), engine.watch()) == f"it gave no sign of life for {HANG_S:g} s"
    assert engine.killed
    assert engine.asked == 3


@pytest.mark.parametrize(
    "engine_of",
    [
        lambda: Engine("answer"),
        lambda: Engine("refusal"),
        lambda: Engine("nothing", "answer", "nothing", "answer", "nothing", "answer"),
        lambda: Engine("nothing", busy=HANG_S / 2),
    ],
    ids=["it answers", "it refuses", "it answers every other time", "it computes"],
)
async def test_an_engine_that_replies_or_computes_is_left_alone(engine_of: type[Engine]) -> None:
    engine = engine_of()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        watched = tasks.create_task(wait_until_dead_or_hung(never(), engine.watch()))
        await reach(engine.often_enough, watched)
        assert not watched.done()
        watched.cancel()
    assert not engine.killed


async def test_an_engine_without_measurements_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine("nothing")
    monkeypatch.setattr(engine, "used_s", lambda: None)
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        watched = tasks.create_task(wait_until_dead_or_hung(never(), engine.watch()))
        await reach(engine.often_enough, watched)
        watched.cancel()
    assert not engine.killed


async def test_an_unwatched_engine_is_never_probed() -> None:
    engine = Engine("nothing")
    died = asyncio.Event()

    async def death() -> str:
        await died.wait()
        return "killed by SIGKILL"

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        watched = tasks.create_task(wait_until_dead_or_hung(death(), engine.watch(patience_s=0)))
        died.set()
        assert await watched == "killed by SIGKILL"
    assert (engine.asked, engine.killed) == (0, False)


async def test_a_probe_uses_a_connection_of_its_own() -> None:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        over.set()

    over = asyncio.Event()
    async with asyncio.timeout(60):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await ping_http("127.0.0.1", port, "/metrics", "secret")
            await over.wait()
    assert requests[0].startswith(b"GET /metrics HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in requests[0]


@pytest.fixture
def worker() -> Iterator[int]:
    """A process whose child computes until it is stopped."""
    child = "import time\nwhile True: time.perf_counter()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
        yield process.pid
        os.killpg(process.pid, signal.SIGKILL)


@needs_proc
def test_processor_time_is_counted_with_that_of_children(worker: int) -> None:
    def used() -> float:
        return read_cpu_time([worker]) or 0.0

    first = used()
    for _ in range(10_000_000):
        if used() > first + 0.2:
            break
    assert used() > first + 0.2
    assert read_cpu_time([]) == 0


def test_without_operating_system_support_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(watching, "_PROC", tmp_path)
    assert read_cpu_time([os.getpid()]) is None
