"""A response can be continued on any replica as soon as a client has read its end."""

import asyncio
import re
import time
from itertools import cycle
from pathlib import Path

import pytest

from tests.databases import Postgres
from tests.faults.client_view import Json
from tests.faults.connection import connected
from tests.state.replicas import replica
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_sse, text_chunks
from tests.upstream.script import Exchange

pytestmark = pytest.mark.timeout(180)  # servers take long to start where every core is busy

CHAINS = 20
TURNS = 50
AT_ONCE_S = 0.001

_ID = re.compile(rb'"id":"(resp_[0-9a-f]+)"')


async def echo(exchange: Exchange) -> None:
    """Replies with the last message."""
    last = exchange.request.json["messages"][-1]["content"]
    await chat_sse(text_chunks("re: ", last))(exchange)


async def test_a_response_can_be_continued_the_moment_its_end_is_read(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.lease()
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", echo)
        # On a busy machine the second connection of a chain may not be used for longer than the default.
        server: Json = {"drain_s": 0.2, "head_s": 120}
        with (
            replica(tmp_path / "a", url, upstream.url, server=server) as one,
            replica(tmp_path / "b", url, upstream.url, server=server) as other,
        ):
            async with asyncio.TaskGroup() as chains:
                tasks = [chains.create_task(chain(name, one.v1, other.v1)) for name in range(CHAINS)]
    postgres.give_back(url)
    delays = sorted(delay for task in tasks for delay in task.result())
    assert len(delays) == CHAINS * (TURNS - 1)
    assert delays[len(delays) // 2] < AT_ONCE_S
    assert len(upstream.requests) == CHAINS * TURNS
    for request in upstream.requests:
        messages = [(message["role"], message["content"]) for message in request.json["messages"]]
        name, number = messages[-1][1].split(".")
        input_items = [f"{name}.{earlier}" for earlier in range(int(number) + 1)]
        said = [pair for text in input_items for pair in (("user", text), ("assistant", f"re: {text}"))]
        assert messages == said[:-1]


async def chain(name: int, *replicas: str) -> list[float]:
    """Creates a chain of responses, each on the next replica. Returns the delays from an end to the next request."""
    delays: list[float] = []
    body: Json = {"model": "some-model", "stream": True}
    async with connected(replicas[0]) as first, connected(replicas[1]) as second:
        connections = cycle((first, second))
        connection, former, ended = next(connections), None, 0.0
        for number in range(TURNS):
            connection.post("/responses", body | {"input": f"{name}.{number}"})
            if former is not None:
                delays.append(time.monotonic() - ended)
                await former.read_to(b"\r\n0\r\n\r\n")
            assert await connection.status() == 200, body
            created = _ID.search(await connection.read_to(b"event: response.in_progress\n"))
            assert created is not None
            body["previous_response_id"] = created[1].decode()
            await connection.read_to(b"event: response.completed\n")
            ended = time.monotonic()
            connection, former = next(connections), connection
    return delays
