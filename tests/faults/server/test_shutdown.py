"""A stopping server lets its streams finish for a while, then ends them with a failure. It runs as a process."""

import asyncio
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.config.settings import parse_settings
from gateway.process.server import make_server
from tests.faults.client_view import CHAT, RESPONSES, question
from tests.faults.config import LONG_S, config
from tests.faults.connection import EXIT_S, Connection, connected, refuses_connections
from tests.polling import reach, wait_until
from tests.processes import is_running, needs_proc, worker_pids
from tests.serving import command
from tests.upstream import Hang, Pause, Reply, ScriptedUpstream
from tests.upstream.builders import JSON, SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER

PATHS = pytest.mark.parametrize("path", [RESPONSES, CHAT])


def settings(base_url: str, drain_s: float) -> dict:
    return config(base_url, "chat", server={"drain_s": drain_s}, silence_s=60.0)


async def begin(client: Connection, path: str) -> None:
    client.post(path, question(path, stream=True))
    assert await client.status() == 200
    await client.read_to(b"upstream")


@PATHS
async def test_a_stream_that_ends_in_time_ends_well(path: str, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    rest = CHAT_ANSWER.stream.removeprefix(CHAT_ANSWER.opening)
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), rest]))
        with command(settings(upstream.url, 20.0), tmp_path, forked=True) as server:
            async with connected(server.v1) as client:
                await begin(client, path)
                server.process.terminate()
                await refuses_connections(server.v1)
                go_on.set()
                end = await client.read_to(b"data: [DONE]\n\n")
            assert b'"response.completed"' in end or b'"finish_reason":"stop"' in end
            assert server.process.wait(EXIT_S) == 0


@PATHS
async def test_a_stream_that_outlasts_the_drain_ends_in_one_failure(path: str, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
        with command(settings(upstream.url, 0.2), tmp_path, forked=True) as server:
            async with connected(server.v1) as client:
                await begin(client, path)
                server.process.terminate()
                end = await client.read_to(b"data: [DONE]\n\n")
                await upstream.requests[0].closed
            assert b"server_shutting_down" in end
            assert end.count(b'"response.failed"') + end.count(b'"finish_reason":"error"') == 1
            assert server.process.wait(EXIT_S) == 0


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT], ids=["SIGKILL", "SIGABRT"])
async def test_workers_end_with_their_supervisor_and_free_the_port_at_once(
    number: signal.Signals, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    rest = CHAT_ANSWER.stream.removeprefix(CHAT_ANSWER.opening)
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), rest]))
        with command(settings(upstream.url, LONG_S), tmp_path, "--workers", "2", forked=True) as server:
            workers = worker_pids(server.process.pid)
            assert len(workers) == 2
            async with connected(server.v1) as client:
                await begin(client, CHAT)
                server.process.send_signal(number)
                await refuses_connections(server.v1)
                with socket.create_server(("127.0.0.1", urlsplit(server.url).port or 0)):
                    go_on.set()
                    end = await client.read_to(b"data: [DONE]\n\n")
            assert b'"finish_reason":"stop"' in end, "what had begun may end"
            await wait_until(lambda: not any(is_running(worker) for worker in workers))


@needs_proc
async def test_requests_that_wait_to_be_accepted_when_the_server_stops_are_served(tmp_path: Path) -> None:
    """The process is held, so their connections are in the system's queue, which is lost with the port."""
    async with ScriptedUpstream() as upstream:
        upstream.script(*[Reply(headers=JSON, body=[CHAT_ANSWER.whole])] * 20)
        with command(settings(upstream.url, LONG_S), tmp_path, forked=True) as server:
            async with AsyncExitStack() as clients:
                server.process.send_signal(signal.SIGSTOP)
                waiting = [await clients.enter_async_context(connected(server.v1)) for _ in range(20)]
                for client in waiting:
                    client.post(CHAT, question(CHAT, stream=False))
                server.process.terminate()
                server.process.send_signal(signal.SIGCONT)
                assert [await client.status() for client in waiting] == [200] * 20
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


async def test_connections_that_the_server_takes_from_the_queue_are_served_to_their_end(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    parsed = parse_settings({"store": {"url": None}, "providers": {}, "models": {}}, environ={})
    ready = asyncio.Event()
    server = make_server(parsed, ready.set)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await reach(ready, running)
    for accepting in server.servers:
        accepting.close()  # so that connections stay in the queue of the listener, which is still open
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with connected(base_url) as waiting, connected(base_url) as leaving:
        waiting.writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        leaving.writer.transport.abort()
        server.should_exit = True
        assert await waiting.status() == 200
        await running
    listener.close()
