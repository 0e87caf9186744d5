"""A gateway without free descriptors lets new clients wait, reports that, and serves accepted clients."""

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from tests.faults.client_view import RESPONSES, question
from tests.faults.config import config
from tests.faults.connection import connected
from tests.polling import wait_until
from tests.serving import command
from tests.upstream import Pause, Reply, ScriptedUpstream, Step
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as ANSWER

LIMIT = 128
CLIENTS = 300
PRLIMIT = shutil.which("prlimit")


async def test_at_the_limit_of_descriptors_accepted_requests_are_served(tmp_path: Path) -> None:
    assert PRLIMIT is not None, "prlimit is part of util-linux"
    go_on = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        body: list[Step] = [ANSWER.opening, Pause(go_on), ANSWER.stream.removeprefix(ANSWER.opening)]
        upstream.script(Reply(headers=SSE, body=body))
        settings = {**config(upstream.url, "chat", server={"head_s": 60}), "store": {"url": None}}
        with command(settings, tmp_path, within=[PRLIMIT, f"--nofile={LIMIT}:{LIMIT}"]) as gateway:
            async with connected(gateway.url) as client:
                client.post(RESPONSES, question(RESPONSES, stream=True))
                await client.read_to(b"upstream")
                idle = [await asyncio.open_connection("127.0.0.1", httpx.URL(gateway.url).port) for _ in range(CLIENTS)]
                try:
                    async with asyncio.timeout(60):
                        while "accept_paused" not in gateway.read_log():
                            await asyncio.to_thread(gateway.log.stat)
                    # The first client's connection asks again, which takes another connection to the upstream.
                    go_on.set()
                    assert b"response.completed" in await client.read_to(b"data: [DONE]\n\n")
                    await client.read_to(b"0\r\n\r\n")
                    client.post(RESPONSES, question(RESPONSES, stream=True))
                    assert b"response.completed" in await client.read_to(b"data: [DONE]\n\n")
                finally:
                    for _, writer in idle:
                        writer.close()
            async with httpx.AsyncClient(trust_env=False, timeout=60) as later:
                assert (await later.get(f"{gateway.url}/healthz")).status_code == 200
            await wait_until(lambda: "accept_resumed" in gateway.read_log())
        messages = [line["message"] for line in gateway.read_log_lines()]
        assert {"accept_paused", "accept_resumed"} <= set(messages)
        assert "request_failed" not in messages


async def test_clients_that_are_idle_give_way_to_clients_that_wait(tmp_path: Path) -> None:
    """Idle connections stay open for longer than any test, unless others need their descriptors."""
    assert PRLIMIT is not None, "prlimit is part of util-linux"
    async with ScriptedUpstream() as upstream:
        settings = {**config(upstream.url, "chat", server={"idle_s": 3600}), "store": {"url": None}}
        with command(settings, tmp_path, within=[PRLIMIT, f"--nofile={LIMIT}:{LIMIT}"]) as gateway:
            async with AsyncExitStack() as clients:
                while "accept_paused" not in gateway.read_log():
                    client = await clients.enter_async_context(connected(gateway.url))
                    client.writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert await client.status() == 200
                async with httpx.AsyncClient(trust_env=False, timeout=60) as later:
                    assert (await later.get(f"{gateway.url}/healthz")).status_code == 200
