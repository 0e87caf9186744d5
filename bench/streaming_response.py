"""What one send and one open stream cost: the gateway's own streaming response beside sse-starlette's.

`python -m bench.streaming_response`. Both get the same encoded frames and send them to an ASGI `send` in this process,
so the figures are those of the response alone: no server, no socket.
"""

import argparse
import asyncio
import gc
import time
import tracemalloc
from collections.abc import AsyncGenerator, Callable
from statistics import median
from typing import Any, TypeAlias

from sse_starlette import EventSourceResponse
from starlette.types import Message

from gateway.http.guard import Drain
from gateway.replies.event_stream import EventStreamReply

_FRAME = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":" word"}\n\n'
_SCOPE = {"type": "http", "method": "POST", "asgi": {"spec_version": "2.4"}}


class Frames:
    """A wire that says the same `count` times, then waits for `release`."""

    has_content = True
    ended = False

    def __init__(self, count: int, release: asyncio.Event | None = None) -> None:
        self._count = count
        self._release = release

    async def frames(self) -> AsyncGenerator[bytes, None]:
        for _ in range(self._count):
            yield _FRAME
        if self._release is not None:
            await self._release.wait()

    def fail(self, error: Exception) -> bytes:
        raise error

    def result(self) -> None:
        return None

    def conclude(self) -> bytes:
        return b""


Make: TypeAlias = Callable[[Frames], Any]


MAKES: dict[str, Make] = {
    "EventSourceResponse": lambda wire: EventSourceResponse(wire.frames(), sep="\n"),
    "EventStream": lambda wire: EventStreamReply(wire, Drain(), keepalive_s=15.0, headers={}),
}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sends", type=int, default=20_000)
    parser.add_argument("--streams", type=int, default=500)
    options = parser.parse_args()
    spent: dict[str, list[float]] = {name: [] for name in MAKES}
    for _ in range(options.rounds):
        # In turns, so that foreign load falls on both alike.
        for name, make in MAKES.items():
            spent[name].append(asyncio.run(_send_us(make, options.sends)))
    per_send = {name: median(times) for name, times in spent.items()}
    per_stream = {name: asyncio.run(_open_kib(make, options.streams)) for name, make in MAKES.items()}
    for name, (kib, tasks) in per_stream.items():
        print(f"{name:20}{per_send[name]:6.2f} µs of CPU per send {kib:6.1f} KiB and {tasks} tasks per open stream")
    theirs, ours = MAKES
    cpu, memory = per_send[theirs] / per_send[ours], per_stream[theirs][0] / per_stream[ours][0]
    print(f"{'ratio':20}{cpu:6.1f} {'':18} {memory:6.1f}")


async def _send_us(make: Make, sends: int) -> float:
    """CPU time per send, in µs, to a client that takes everything at once."""

    async def send(_: Message) -> None:
        return None

    began = time.process_time()
    await make(Frames(sends))(_SCOPE, _never, send)
    return (time.process_time() - began) * 1e6 / sends


async def _open_kib(make: Make, streams: int) -> tuple[float, int]:
    """Memory and tasks that each open stream takes, once its first frame is out."""
    release, all_open = asyncio.Event(), asyncio.Event()
    sent = 0

    async def send(message: Message) -> None:
        nonlocal sent
        sent += bool(message.get("body"))
        if sent == streams:
            all_open.set()

    await make(Frames(1))(_SCOPE, _never, send)
    sent = 0
    gc.collect()
    tracemalloc.start()
    tasks_before = len(asyncio.all_tasks())
    async with asyncio.TaskGroup() as group:
        for _ in range(streams):
            group.create_task(make(Frames(1, release))(_SCOPE, _never, send))
        await all_open.wait()
        held, _ = tracemalloc.get_traced_memory()
        tasks = len(asyncio.all_tasks()) - tasks_before
        release.set()
    tracemalloc.stop()
    return held / 1024 / streams, round(tasks / streams)


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


if __name__ == "__main__":
    main()
