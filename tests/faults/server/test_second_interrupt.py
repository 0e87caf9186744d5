"""A second interrupt ends a server at once, and yet each stream in its terminal event. It runs as a process."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import databases
from tests.faults.client_view import CHAT, RESPONSES, question
from tests.faults.config import LONG_S, config
from tests.faults.connection import EXIT_S, Connection, connected, refuses_connections
from tests.polling import PROMPT_S, wait_until
from tests.serving import Command, command
from tests.state.processes.database_observer import held
from tests.upstream import Hang, Reply, ScriptedUpstream
from tests.upstream.builders import SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.websocket_client import talking

LATE_S = 1.5
"""More than a second after the interrupt, when a server on a quiet machine has ended."""


def settings(base_url: str, store: Mapping[str, Any] | None = None, **server: float) -> dict[str, Any]:
    return {
        **config(base_url, "chat", server={"drain_s": LONG_S, **server}, silence_s=60.0),
        "store": {"url": None, **(store or {})},
    }


async def begin(client: Connection, path: str) -> None:
    client.post(path, question(path, stream=True))
    assert await client.status() == 200
    await client.read_to(b"upstream")


async def interrupt_twice(server: Command) -> None:
    server.process.send_signal(signal.SIGINT)
    await refuses_connections(server.v1)
    server.process.send_signal(signal.SIGINT)


async def wait_for_exit(server: Command) -> None:
    assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
async def test_a_second_interrupt_ends_streams_in_their_terminal_event_at_once(workers: int, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        for _ in range(2):
            upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
        with command(settings(upstream.url), tmp_path, "--workers", str(workers), forked=True) as server:
            async with connected(server.v1) as response, connected(server.v1) as completion:
                await begin(response, RESPONSES)
                await begin(completion, CHAT)
                server.process.send_signal(signal.SIGINT)
                await refuses_connections(server.v1)
                async with asyncio.timeout(PROMPT_S):
                    server.process.send_signal(signal.SIGINT)
                    ends = [await client.read_to(b"data: [DONE]\n\n") for client in (response, completion)]
            for end in ends:
                assert b"server_shutting_down" in end
                assert end.count(b'"response.failed"') + end.count(b'"finish_reason":"error"') == 1
            await wait_for_exit(server)
            assert "Traceback" not in server.read_log()


async def test_a_second_interrupt_ends_a_turn_on_a_websocket(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
        with command(settings(upstream.url), tmp_path, forked=True) as server:
            async with talking(server.v1) as talk:
                await talk.create(model="scripted-model", store=False)
                await talk.read_to("response.output_text.delta")
                server.process.send_signal(signal.SIGINT)
                await refuses_connections(server.v1)
                async with asyncio.timeout(PROMPT_S):
                    server.process.send_signal(signal.SIGINT)
                    events = await talk.read_turn()
            assert events[-1]["type"] == "response.failed"
            await wait_for_exit(server)


async def test_a_second_interrupt_does_not_wait_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    flood = b"".join(CHAT_ANSWER.opening for _ in range(200_000))
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[flood, Hang()]))
        with command(settings(upstream.url), tmp_path, forked=True) as server:
            async with connected(server.v1) as client:
                await begin(client, CHAT)
                server.process.send_signal(signal.SIGINT)
                await refuses_connections(server.v1)
                server.process.send_signal(signal.SIGINT)
                await wait_for_exit(server)


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return databases.ready_sqlite(tmp_path / "state.db")


async def test_a_terminal_event_that_takes_its_time_is_waited_for(store_url: str, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
        with command(settings(upstream.url, {"url": store_url}), tmp_path, forked=True) as server:
            async with connected(server.v1) as client:
                await begin(client, RESPONSES)
                async with held(store_url):
                    await interrupt_twice(server)
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(LATE_S):
                            await client.read_to(b"data: [DONE]\n\n")
                end = await client.read_to(b"data: [DONE]\n\n")
            assert end.count(b'"response.failed"') == 1
            await wait_for_exit(server)


async def test_a_request_that_does_not_end_is_cancelled_after_some_seconds(store_url: str, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
        with command(settings(upstream.url, {"url": store_url}), tmp_path, forked=True) as server:
            async with connected(server.v1) as client:
                await begin(client, RESPONSES)
                async with held(store_url):
                    await interrupt_twice(server)
                    await wait_until(lambda: "requests_cancelled" in server.read_log())
                await wait_for_exit(server)


async def test_a_second_interrupt_does_not_wait_for_a_body_that_does_not_come(tmp_path: Path) -> None:
    with command(settings("http://127.0.0.1:9"), tmp_path, forked=True) as server:
        async with connected(server.v1) as client:
            client.post(RESPONSES, b'{"model": ', length=100)
            await interrupt_twice(server)
            await wait_for_exit(server)
        assert "requests_cancelled" not in server.read_log()


async def test_a_second_interrupt_ends_connections_that_wait_for_a_request(tmp_path: Path) -> None:
    """After a linger they would stay open for as long as it was."""
    with command(settings("http://127.0.0.1:9", linger_s=LONG_S), tmp_path, forked=True) as server:
        async with connected(server.v1) as client:
            client.writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await client.status() == 200
            server.process.terminate()
            await wait_until(lambda: "server_lingering" in server.read_log())
            await interrupt_twice(server)
            await wait_for_exit(server)
        assert "requests_cancelled" not in server.read_log()
