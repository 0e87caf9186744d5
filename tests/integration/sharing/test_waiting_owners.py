"""Turns of several keys wait for the one slot of an upstream: no key keeps turns of another one waiting behind all of
its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from gateway.upstreams.waiting_turns import WaitingTurns
from tests.faults.client_view import CHAT, MESSAGES, RESPONSES, client, question
from tests.faults.upstreams.test_attempts import shared
from tests.integration.metrics.test_metrics import read_values, value_of
from tests.polling import read_until, wait_until
from tests.serving import command, serving
from tests.upstream.faults import ANSWERS
from tests.upstream.script import Exchange
from tests.upstream.server import ScriptedUpstream

Json = dict[str, Any]
ANSWER = ANSWERS["chat"]
ADMIN = {"authorization": "Bearer key-of-root"}
EMBEDDINGS = "/embeddings"
INPUT_TOKENS = "/responses/input_tokens"
COMPACTION = "/responses/compact"
VECTORS = b'{"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}'
LIMIT = "routing.queue_length"

WAYS = {
    "Responses, streamed": (RESPONSES, True),
    "Chat": (CHAT, False),
    "Messages, streamed": (MESSAGES, True),
    "relayed": (EMBEDDINGS, False),
}


class Upstream(NamedTuple):
    """An upstream that serves one turn at a time, each for as long as the test wants."""

    server: ScriptedUpstream
    config: Json
    """That of a gateway before it."""
    answers: asyncio.Semaphore

    def answer(self, count: int) -> None:
        for _ in range(count):
            self.answers.release()

    def list_served(self) -> list[str]:
        """Returns the inputs of all turns, in the order in which they were served."""
        bodies = [request.json for request in self.server.requests]
        return [body["input"] if "input" in body else body["messages"][-1]["content"] for body in bodies]


class Asking(NamedTuple):
    """The clients of a gateway."""

    client: httpx.AsyncClient
    v1: str
    path: str
    stream: bool

    def ask(self, label: str) -> asyncio.Task[httpx.Response]:
        """Sends a request with the key that its first word names."""
        body = question(self.path, stream=self.stream)
        if self.path in (EMBEDDINGS, INPUT_TOKENS, COMPACTION):
            body = {"model": "scripted-model", "input": label}
        elif self.path == RESPONSES:
            body["input"] = label
        else:
            body["messages"][0]["content"] = label
        headers = {"authorization": f"Bearer key-of-{label.split()[0]}"}
        return asyncio.create_task(self.client.post(f"{self.v1}{self.path}", json=body, headers=headers))

    def describe_refusal(self, reply: httpx.Response) -> tuple[int, str, str]:
        """Returns what is the same for all APIs."""
        status = 503 if (reply.status_code, self.path) == (529, MESSAGES) else reply.status_code
        return status, reply.headers["retry-after"], reply.headers.get("x-gateway-attempts", "0")


@asynccontextmanager
async def start_slow_upstream(**routing: Any) -> AsyncIterator[Upstream]:
    answers = asyncio.Semaphore(0)

    async def answer(exchange: Exchange) -> None:
        await answers.acquire()
        whole = VECTORS if exchange.request.path.endswith(EMBEDDINGS) else ANSWER.whole
        kind, body = (b"text/event-stream", ANSWER.stream) if exchange.request.streams else (b"application/json", whole)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (kind, len(body))
        await exchange.send(head + body)

    async with ScriptedUpstream() as server:
        server.script(answer)
        config = shared(server.url, server.url, queue_s=60, **routing)
        config["providers"]["first"] |= {"max_in_flight": 1, "capabilities": {"counting": "turn"}}
        config["models"] = {"scripted-model": {"upstreams": [{"provider": "first"}]}}
        keys: list[Json] = [{"name": name, "key": f"key-of-{name}"} for name in ("ann", "bob")]
        keys.append({"name": "root", "key": "key-of-root", "admin": True})
        config |= {"store": {"url": None}, "log": {"format": "json"}, "auth": {"keys": keys}}
        yield Upstream(server, config, answers)


@pytest.mark.parametrize(("path", "stream"), WAYS.values(), ids=WAYS)
async def test_a_turn_waits_for_one_turn_of_another_key_and_not_for_all(
    path: str, stream: bool, queued: list[WaitingTurns]
) -> None:
    async with start_slow_upstream() as upstream, client() as http:
        with serving(upstream.config) as running:
            asking = Asking(http, running.v1, path, stream)
            asked = [asking.ask("ann 0")]
            await upstream.server.received(1)
            for label in ("ann 1", "ann 2", "ann 3", "bob"):
                asked.append(asking.ask(label))
                await wait_until(lambda: len(queued) == len(asked) - 1)
            upstream.answer(len(asked))
            assert [reply.status_code for reply in await asyncio.gather(*asked)] == [200] * 5
    assert upstream.list_served() == ["ann 0", "ann 1", "bob", "ann 2", "ann 3"]


@pytest.mark.parametrize(("path", "stream"), WAYS.values(), ids=WAYS)
async def test_a_key_that_fills_the_queue_makes_room_for_another_one(
    path: str, stream: bool, queued: list[WaitingTurns]
) -> None:
    async with start_slow_upstream(queue_length=2) as upstream, client() as http:
        with serving(upstream.config) as running:
            asking = Asking(http, running.v1, path, stream)
            held = asking.ask("ann 0")
            await upstream.server.received(1)
            waiting = asking.ask("ann 1")
            await wait_until(lambda: len(queued) == 1)
            newest = asking.ask("ann 2")
            await wait_until(lambda: len(queued) == 2)
            bob = asking.ask("bob")
            assert asking.describe_refusal(await newest) == (503, "1", "0")
            for label in ("ann 3", "bob 1"):
                assert asking.describe_refusal(await asking.ask(label)) == (503, "1", "0")
            upstream.answer(3)
            assert [(await asked).status_code for asked in (held, waiting, bob)] == [200] * 3
    assert upstream.list_served() == ["ann 0", "ann 1", "bob"]


@pytest.mark.parametrize("path", [CHAT, EMBEDDINGS, INPUT_TOKENS, COMPACTION])
async def test_a_turn_that_makes_room_is_logged_and_counted_as_a_refusal(path: str, tmp_path: Path) -> None:
    async with start_slow_upstream(queue_length=2) as upstream, client() as http:
        with command(upstream.config, tmp_path, forked=True) as server:

            async def read_value(name: str, **labels: str) -> float:
                return value_of(await read_values(server.url, **ADMIN), name, **labels)

            asking = Asking(http, server.v1, path, stream=False)
            served = [asking.ask("ann 0")]
            await upstream.server.received(1)
            full = {asking.ask("ann 1"), asking.ask("ann 2")}
            await read_until(lambda: read_value("gateway_queued"), lambda count: count == 2)
            served.append(asking.ask("bob"))
            left, stayed = await asyncio.wait(full, return_when=asyncio.FIRST_COMPLETED)
            assert [asking.describe_refusal(await reply) for reply in left] == [(503, "1", "0")]
            upstream.answer(3)
            assert [(await asked).status_code for asked in (*served, *stayed)] == [200] * 3
            name = "gateway_limit_refusals_total"
            assert await read_until(lambda: read_value(name, limit=LIMIT), lambda count: count > 0) == 1
        lines = [line for line in server.read_log_lines() if line["message"] == "request" and "limit" in line]
    assert [(line["client"], line["limit"], line["queue_ms"] > 0) for line in lines] == [("ann", LIMIT, True)]
