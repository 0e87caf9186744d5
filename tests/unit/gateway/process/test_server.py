"""The server as a process: it reports when it is ready, stops on a signal, and has documented exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.polling import block_until, wait_until
from tests.processes import child_pids, is_running, needs_proc, worker_pids
from tests.serving import READY_S, command, serving

CONFIG = {
    "server": {"drain_s": 1},
    "providers": {"demo": {"type": "scripted"}},
    "models": {"demo": {"provider": "demo"}},
}
QUESTION = {"model": "demo", "input": "Say something long.", "stream": True}


def ask(client: httpx.Client, url: str) -> httpx.Response:
    return client.post(f"{url}/responses", json=QUESTION)


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """A client that opens a connection for each request. It loads no certificates and proxies, which would be slow."""
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(verify=False, trust_env=False, timeout=READY_S, limits=limits) as client:
        yield client


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
def test_a_server_that_is_asked_to_stop_exits_with_success(
    stop: signal.Signals, workers: str, tmp_path: Path, client: httpx.Client
) -> None:
    with command(CONFIG, tmp_path, "--workers", workers) as server:
        assert client.get(f"{server.url}/healthz").status_code == 200
        assert ask(client, server.v1).content.endswith(b"data: [DONE]\n\n")
        server.process.send_signal(stop)
        assert server.process.wait(READY_S) == 0
        log = server.read_log()
        assert "Traceback" not in log
        lines = [json.loads(line) for line in log.splitlines()]
    assert any(line["message"] == "request" for line in lines), "the log is JSON, line by line"
    stopping = [line for line in lines if line["message"] == "server_stopping"]
    assert [line["open_requests"] for line in stopping] == [0] * int(workers)
    if workers == "1":
        assert stopping[0]["signal"] == stop.name
    assert sum(line["message"] == "server_stopped" for line in lines) == int(workers)


@pytest.mark.parametrize("late", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_that_comes_while_the_process_ends_is_no_error(first: signal.Signals, late: signal.Signals) -> None:
    script = (
        "import atexit, signal; from gateway.process.server import exit_on_signals; exit_on_signals();"
        f"atexit.register(signal.raise_signal, {int(late)}); signal.raise_signal({int(first)})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=READY_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_server_without_requests_stops_at_once() -> None:
    def measure_stop() -> float:
        with serving(CONFIG) as gateway:
            began = time.monotonic()
            gateway.begin_stop()
            assert gateway.stopped.wait(READY_S)
            return time.monotonic() - began

    assert any(measure_stop() < 0.05 for _ in range(30)), "unless the machine is busy"


@needs_proc
def test_each_worker_serves_the_port(tmp_path: Path, client: httpx.Client) -> None:
    with command(CONFIG, tmp_path, "--workers", "2", forked=True) as server:
        first, second = worker_pids(server.process.pid)
        for other in (first, second):
            os.kill(other, signal.SIGSTOP)
            try:
                assert ask(client, server.v1).status_code == 200
            finally:
                os.kill(other, signal.SIGCONT)
    assert not any(is_running(worker) for worker in (first, second)), "no worker outlives its server"


@needs_proc
def test_a_worker_that_dies_is_replaced(tmp_path: Path, client: httpx.Client) -> None:
    with command(CONFIG, tmp_path, "--workers", "2", forked=True) as server:
        before = worker_pids(server.process.pid)
        for worker in before:
            os.kill(worker, signal.SIGKILL)
        assert ask(client, server.v1).status_code == 200, "the socket stays open meanwhile"
        block_until(lambda: not set(before) & set(worker_pids(server.process.pid)))
        block_until(lambda: server.read_log().count("worker_died") == 2)  # a server that stops examines none
        server.process.terminate()
        assert server.process.wait(READY_S) == 0


@needs_proc
async def test_workers_are_replaced_without_the_worker_template(tmp_path: Path) -> None:
    with command(CONFIG, tmp_path, "--workers", "2", forked=True) as server:
        before = worker_pids(server.process.pid)
        (template,) = child_pids(server.process.pid)
        os.kill(template, signal.SIGKILL)
        await wait_until(lambda: server.read_log().count("supervisor_died") == 2)
        await wait_until(lambda: not any(is_running(worker) for worker in before))
        await wait_until(lambda: server.read_log().count("worker_died") == 2)
        with httpx.Client(verify=False, trust_env=False, timeout=READY_S) as client:
            assert ask(client, server.v1).content.endswith(b"data: [DONE]\n\n")
        server.process.terminate()
        assert server.process.wait(READY_S) == 0
        log = server.read_log()
        assert log.count("worker_template_died") == 1
        assert "Traceback" not in log


@needs_proc
async def test_a_signal_to_all_processes_of_a_server_lets_workers_drain(tmp_path: Path) -> None:
    """Service managers send SIGTERM to each process."""
    with command(CONFIG, tmp_path, "--workers", "2", forked=True) as server:
        workers = worker_pids(server.process.pid)
        processes = [server.process.pid, *child_pids(server.process.pid), *workers]
        for process in processes:
            os.kill(process, signal.SIGTERM)
        assert server.process.wait(READY_S) == 0
        assert not any(is_running(process) for process in processes)
        log = server.read_log()
        assert "died" not in log
        assert "Traceback" not in log


def test_a_port_that_is_taken_stops_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = _serve(CONFIG, tmp_path, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_that_is_wrong_stops_the_start(tmp_path: Path) -> None:
    done = _serve({**CONFIG, "sever": {}}, tmp_path)
    assert done.returncode == 2
    assert "sever" in done.stderr
    assert "Traceback" not in done.stderr


def _serve(config: object, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    program = str(Path(sys.executable).with_name("responses-gateway"))
    return subprocess.run(
        [program, "serve", "--config", str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
