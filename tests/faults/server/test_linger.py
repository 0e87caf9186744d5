"""A server that was told to stop serves new requests for a while before it closes its port. It runs as a process."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.client_view import CHAT, RESPONSES, question
from tests.faults.config import LONG_S, config
from tests.faults.connection import EXIT_S, Connection, connected, refuses_connections
from tests.polling import wait_until
from tests.processes import child_pids, is_running, needs_proc, worker_pids
from tests.serving import Command, command
from tests.upstream import Hang, Pause, Reply, ScriptedUpstream
from tests.upstream.builders import JSON, SSE
from tests.upstream.faults import CHAT as CHAT_ANSWER
from tests.upstream.faults import sound
from tests.websocket_client import talking

LINGER_S = 10.0
"""Within it the clients of a test have asked, on a busy machine too."""
WORKERS = pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
CLOSES = "connection: close"


def settings(base_url: str, linger_s: float, drain_s: float = 20.0) -> dict[str, Any]:
    return config(base_url, "chat", server={"linger_s": linger_s, "drain_s": drain_s}, silence_s=60.0)


async def read_reply(client: Connection) -> tuple[str, bytes]:
    """Reads a reply. Returns its head in small letters, and its body, which has a length."""
    head = (await client.read_to(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return head, await client.reader.readexactly(length)


async def ask(client: Connection) -> str:
    """Sends a request whose reply is not a stream. Returns the head of the reply."""
    client.post(CHAT, question(CHAT, stream=False))
    head, _ = await read_reply(client)
    return head


def get(client: Connection, path: str) -> None:
    client.writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


async def lingers(server: Command, workers: int) -> None:
    """Waits until every worker knows that it has to stop."""
    await wait_until(lambda: server.read_log().count('"server_lingering"') == workers)


def read_log(server: Command, message: str) -> list[dict[str, Any]]:
    lines = server.read_log_lines()
    return [line for line in lines if line["message"] == message]


@WORKERS
async def test_new_requests_are_served_until_the_port_closes(workers: int, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    rest = CHAT_ANSWER.stream.removeprefix(CHAT_ANSWER.opening)
    async with ScriptedUpstream() as upstream:
        paused = Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), rest])
        upstream.script(sound(CHAT_ANSWER), paused, sound(CHAT_ANSWER))
        serve = settings(upstream.url, LINGER_S)
        with command(serve, tmp_path, "--workers", str(workers), forked=True) as server:
            async with connected(server.v1) as idle, connected(server.v1) as streaming, connected(server.v1) as new:
                assert CLOSES not in await ask(idle)
                streaming.post(RESPONSES, question(RESPONSES, stream=True))
                assert await streaming.status() == 200
                server.process.terminate()
                await lingers(server, workers)
                get(new, "/readyz")
                head, body = await read_reply(new)
                assert (head.split()[1], json.loads(body)) == ("503", {"status": "draining"})
                assert CLOSES in head
                assert await new.reader.read() == b"", "the connection is closed"
                head = await ask(idle)
                assert head.split()[1] == "200"
                assert CLOSES in head, "the connection was opened before the signal"
                async with connected(server.v1) as later:
                    assert CLOSES in await ask(later)
                await refuses_connections(server.v1)
                go_on.set()
                end = await streaming.read_to(b"data: [DONE]\n\n")
            assert b'"response.completed"' in end
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0
            assert [line["linger_s"] for line in read_log(server, "server_lingering")] == [LINGER_S] * workers
            assert len(read_log(server, "server_stopping")) == workers
            assert "Traceback" not in server.read_log()


@WORKERS
async def test_a_client_that_could_not_know_is_served_once_more_while_the_server_drains(
    workers: int, tmp_path: Path
) -> None:
    """The head of a stream that began before the signal could not say that the connection ends with it."""
    go_on = asyncio.Event()
    rest = CHAT_ANSWER.stream.removeprefix(CHAT_ANSWER.opening)
    async with ScriptedUpstream() as upstream:
        paused = Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), rest])
        upstream.script(paused, paused, sound(CHAT_ANSWER))
        serve = settings(upstream.url, 3.0)
        with command(serve, tmp_path, "--workers", str(workers), forked=True) as server:
            async with connected(server.v1) as busy, connected(server.v1) as quiet:
                for client in (busy, quiet):
                    client.post(RESPONSES, question(RESPONSES, stream=True))
                    assert await client.status() == 200
                server.process.terminate()
                await refuses_connections(server.v1)
                go_on.set()
                end = b"data: [DONE]\n\n\r\n0\r\n\r\n"
                assert b'"response.completed"' in await busy.read_to(end)
                head = await ask(busy)  # at once: it has as many seconds for it as the linger
                assert head.split()[1] == "200"
                assert CLOSES in head
                assert await busy.reader.read() == b""
                assert b'"response.completed"' in await quiet.read_to(end)
                assert await quiet.reader.read() == b"", "without a request it is closed after these seconds"
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


@WORKERS
async def test_a_stream_that_outlasts_linger_and_drain_ends_in_one_failure(workers: int, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Hang()]))
        serve = settings(upstream.url, 0.3, drain_s=0.2)
        with command(serve, tmp_path, "--workers", str(workers), forked=True) as server:
            async with connected(server.v1) as client:
                client.post(RESPONSES, question(RESPONSES, stream=True))
                assert await client.status() == 200
                server.process.terminate()
                end = await client.read_to(b"data: [DONE]\n\n")
            assert b"server_shutting_down" in end
            assert end.count(b'"response.failed"') == 1
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


@WORKERS
async def test_a_request_that_waits_when_the_signal_comes_is_told_that_its_connection_ends(
    workers: int, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=JSON, body=[Pause(go_on), CHAT_ANSWER.whole]))
        serve = settings(upstream.url, LONG_S)
        with command(serve, tmp_path, "--workers", str(workers), forked=True) as server:
            async with connected(server.v1) as client:
                client.post(CHAT, question(CHAT, stream=False))
                await wait_until(lambda: upstream.requests)
                server.process.terminate()
                await lingers(server, workers)
                go_on.set()
                head, _ = await read_reply(client)
                assert CLOSES in head
            server.process.terminate()
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


@WORKERS
async def test_a_second_signal_to_terminate_skips_the_linger_and_lets_streams_end(workers: int, tmp_path: Path) -> None:
    go_on = asyncio.Event()
    rest = CHAT_ANSWER.stream.removeprefix(CHAT_ANSWER.opening)
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(headers=SSE, body=[CHAT_ANSWER.opening, Pause(go_on), rest]))
        serve = settings(upstream.url, LONG_S)
        with command(serve, tmp_path, "--workers", str(workers), forked=True) as server:
            async with connected(server.v1) as client:
                client.post(RESPONSES, question(RESPONSES, stream=True))
                assert await client.status() == 200
                server.process.terminate()
                await lingers(server, workers)
                server.process.terminate()
                await refuses_connections(server.v1)
                go_on.set()
                assert b'"response.completed"' in await client.read_to(b"data: [DONE]\n\n")
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


@WORKERS
async def test_an_interrupt_does_not_linger(workers: int, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        with command(settings(upstream.url, LONG_S), tmp_path, "--workers", str(workers), forked=True) as server:
            server.process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0
            assert not read_log(server, "server_lingering")


@needs_proc
async def test_a_signal_to_all_processes_of_a_server_does_not_skip_the_linger(tmp_path: Path) -> None:
    """Service managers send SIGTERM to each process, and the supervisor sends it to its workers too."""
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(CHAT_ANSWER))
        with command(settings(upstream.url, LONG_S), tmp_path, "--workers", "2", forked=True) as server:
            workers = worker_pids(server.process.pid)
            for process in (server.process.pid, *child_pids(server.process.pid), *workers):
                os.kill(process, signal.SIGTERM)
            await lingers(server, 2)
            for worker in workers:  # as the supervisor does, perhaps later
                os.kill(worker, signal.SIGTERM)
            async with connected(server.v1) as client:
                assert CLOSES in await ask(client)
            assert not read_log(server, "server_stopping")
            server.process.terminate()
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


@needs_proc
async def test_workers_without_a_supervisor_free_the_port_at_once(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        with command(settings(upstream.url, LONG_S), tmp_path, "--workers", "2", forked=True) as server:
            workers = worker_pids(server.process.pid)
            server.process.send_signal(signal.SIGKILL)
            await refuses_connections(server.v1)
            await wait_until(lambda: not any(is_running(worker) for worker in workers))
            assert not read_log(server, "server_lingering")


async def test_turns_on_a_websocket_are_served_while_the_server_lingers(tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(sound(CHAT_ANSWER))
        with command(settings(upstream.url, LONG_S), tmp_path, forked=True) as server:
            async with talking(server.v1) as early:
                server.process.terminate()
                await lingers(server, 1)
                await early.response(model="scripted-model", store=False)
                async with talking(server.v1) as late:
                    await late.response(model="scripted-model", store=False)
                    server.process.terminate()
                    code, _ = await late.closed()
                    assert code == 1012
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0


@WORKERS
async def test_metrics_say_at_once_that_the_server_stops(workers: int, tmp_path: Path) -> None:
    async with ScriptedUpstream() as upstream:
        with command(settings(upstream.url, LONG_S), tmp_path, "--workers", str(workers), forked=True) as server:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                assert "gateway_draining 0.0" in (await client.get(f"{server.url}/metrics")).text
                server.process.terminate()
                await lingers(server, workers)

                async def is_draining() -> bool:
                    return "gateway_draining 1.0" in (await client.get(f"{server.url}/metrics")).text

                await wait_until(is_draining)
            server.process.terminate()
            assert await asyncio.to_thread(server.process.wait, EXIT_S) == 0
