"""A heavy body that goes to the next upstream is planned again without stalling the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from tests import databases
from tests.faults.clients.test_large_bodies import (
    ATTEMPTS,
    CHAT,
    MAX_STALL_S,
    MESSAGE,
    RESPONSES,
    calls,
    post,
    responses,
    tool,
)
from tests.faults.upstreams.test_attempts import rejected, shared
from tests.own_process import StallWatch
from tests.serving import serving_here
from tests.upstream import ScriptedUpstream, chat_text

BODIES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "30,000 items": (RESPONSES, lambda: responses(input=[MESSAGE] * 30_000, store=False)),
    "15,000 calls": (RESPONSES, lambda: responses(input=calls(15_000), store=False)),
    "900 tools": (RESPONSES, lambda: responses(tools=[tool(index) for index in range(900)], store=False)),
    "30,000 messages": (
        CHAT,
        lambda: orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}] * 30_000}),
    ),
    "30,000 messages that are stored": (
        CHAT,
        lambda: orjson.dumps({"model": "m", "store": True, "messages": [{"role": "user", "content": "x"}] * 30_000}),
    ),
}


@asynccontextmanager
async def served_here(first: str, second: str, folder: Path) -> AsyncIterator[int]:
    """A gateway on the test's own event loop, whose first upstream fails. Yields its port."""
    config = shared(first, second, eject_failures=100)
    config["server"] |= {"max_items": 60_000, "max_json_values": 2_000_000}
    config["store"] = {"url": databases.ready_sqlite(folder / "state.db")}
    for provider in config["providers"].values():
        provider |= {"dialects": ["chat"], "answer_s": 30, "silence_s": 30}
    async with serving_here(config) as port:
        yield port


@pytest.mark.parametrize(("path", "build"), BODIES.values(), ids=BODIES)
async def test_no_further_attempt_stops_the_event_loop(path: str, build: Callable[[], bytes], tmp_path: Path) -> None:
    body = build()
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(rejected(503))
        second.script(chat_text("hi"))
        async with served_here(first.url, second.url, tmp_path) as port:
            await asyncio.to_thread(post, port, RESPONSES, responses())
            stalls_s: list[float] = []
            while len(stalls_s) < ATTEMPTS and min(stalls_s, default=MAX_STALL_S) >= MAX_STALL_S:
                sent = asyncio.ensure_future(asyncio.to_thread(post, port, path, body))
                await first.received(len(first.requests) + 1)  # what is measured are the attempts after the first
                watch = StallWatch()
                reply = await sent
                assert b"x-gateway-attempts: 2" in reply
                stalls_s.append(watch.longest_s)
    assert min(stalls_s) < MAX_STALL_S
