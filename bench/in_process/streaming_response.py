"""Measures one send and one open stream of the gateway's streaming response and of sse-starlette's.

Run it with `python -m bench.in_process.streaming_response`. Both send the same encoded frames to an ASGI `send` in this
process. There is no server and no socket, so the figures are of the response alone.
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

from gateway.http.guard import DrainState
from gateway.replies.event_stream import EventStreamReply

_FRAME = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":" word"}\n\n'
_SCOPE = {"type": "http", "method": "POST", "asgi": {"spec_version": "2.4"}}


class Frames:
    """A reply stream that yields the same frame `count` times, then waits for `release`."""

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


ResponseFactory: TypeAlias = Callable[[Frames], Any]

RESPONSE_FACTORIES: dict[str, ResponseFactory] = {
    "EventSourceResponse": lambda stream: EventSourceResponse(stream.frames(), sep="\n"),
    "EventStream": lambda stream: EventStreamReply(stream, DrainState(), keepalive_s=15.0, headers={}),
}


def main() -> None:
    """Measures both and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sends", type=int, default=20_000)
    parser.add_argument("--streams", type=int, default=500)
    options = parser.parse_args()
    times_by_name: dict[str, list[float]] = {name: [] for name in RESPONSE_FACTORIES}
    for _ in range(options.rounds):
        # In turn, so that load of other processes affects both alike.
        for name, make_response in RESPONSE_FACTORIES.items():
            times_by_name[name].append(asyncio.run(_send_us(make_response, options.sends)))
    per_send = {name: median(times) for name, times in times_by_name.items()}
    per_stream = {
        name: asyncio.run(_open_kib(make_response, options.streams))
        for name, make_response in RESPONSE_FACTORIES.items()
    }
    for name, (kib, tasks) in per_stream.items():
        print(f"{name:20}{per_send[name]:6.2f} µs of CPU per send {kib:6.1f} KiB and {tasks} tasks per open stream")
    other, own = RESPONSE_FACTORIES
    cpu, memory = per_send[other] / per_send[own], per_stream[other][0] / per_stream[own][0]
    print(f"{'ratio':20}{cpu:6.1f} {'':18} {memory:6.1f}")


async def _send_us(make_response: ResponseFactory, sends: int) -> float:
    """Returns the CPU time per send in µs, to a client that accepts everything at once."""

    async def send(_: Message) -> None:
        return None

    began = time.process_time()
    await make_response(Frames(sends))(_SCOPE, _never, send)
    return (time.process_time() - began) * 1e6 / sends


async def _open_kib(make_response: ResponseFactory, streams: int) -> tuple[float, int]:
    """Returns the KiB of memory and the tasks per open stream, after its first frame was sent."""
    release, all_open = asyncio.Event(), asyncio.Event()
    sent = 0

    async def send(message: Message) -> None:
        nonlocal sent
        sent += bool(message.get("body"))
        if sent == streams:
            all_open.set()

    await make_response(Frames(1))(_SCOPE, _never, send)
    sent = 0
    gc.collect()
    tracemalloc.start()
    tasks_before = len(asyncio.all_tasks())
    async with asyncio.TaskGroup() as group:
        for _ in range(streams):
            group.create_task(make_response(Frames(1, release))(_SCOPE, _never, send))
        await all_open.wait()
        traced_bytes, _ = tracemalloc.get_traced_memory()
        tasks = len(asyncio.all_tasks()) - tasks_before
        release.set()
    tracemalloc.stop()
    return traced_bytes / 1024 / streams, round(tasks / streams)


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


if __name__ == "__main__":
    main()
