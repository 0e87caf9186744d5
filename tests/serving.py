"""The gateway on a real socket, in this process or as the command its users run."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from gateway.config import settings as settings_of
from gateway.process.server import make_server
from providers.base import Provider
from tests.forking import Forked, fork_command
from tests.polling import reach

READY_S = 60.0
START_S = 100.0
"""Seconds in which a command must listen. A busy machine takes its time to start a process."""


STORE_S = 60.0
"""The deadline of a store whose configuration has none: a disk that many tests write to may take longer than the usual
one."""


def be_patient(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a configuration with a longer deadline of its store, unless it has one."""
    store = config.get("store")
    return (
        {**config, "store": {"deadline_s": STORE_S, **store}}
        if isinstance(store, dict) and store.get("url")
        else {**config}
    )


class Gateway:
    """A server of this process, in a thread with an event loop of its own. `url` has no path."""

    def __init__(self, url: str, stop: Callable[[], None], stopped: threading.Event) -> None:
        self.url = url
        self.begin_stop = stop
        self.stopped = stopped

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"


@contextmanager
def serving(config: Mapping[str, Any], providers: Mapping[str, Provider] | None = None) -> Iterator[Gateway]:
    """Serves a configuration, as its file would be parsed; `providers` replaces configured ones by name.

    There is no store, unless the configuration has one.
    """
    settings = settings_of.parse_settings({"store": {"url": None}, **be_patient(config)}, environ={})
    listener = socket.create_server(("127.0.0.1", 0))
    ready, stopped = threading.Event(), threading.Event()
    server = make_server(settings, ready.set, providers=providers)

    def run() -> None:
        try:
            server.run(sockets=[listener])
        finally:
            stopped.set()

    def stop() -> None:
        server.should_exit = True

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not ready.wait(READY_S):
        raise RuntimeError("the gateway did not start")
    try:
        yield Gateway(f"http://127.0.0.1:{listener.getsockname()[1]}", stop, stopped)
    finally:
        stop()
        thread.join(READY_S)
        listener.close()


@asynccontextmanager
async def serving_here(config: Mapping[str, Any]) -> AsyncIterator[int]:
    """Serves a configuration on the event loop of the test, so that what stops the loop can be measured. Yields the
    port."""
    settings = settings_of.parse_settings({"store": {"url": None}, **be_patient(config)}, environ={})
    listener = socket.create_server(("127.0.0.1", 0))
    ready = asyncio.Event()
    server = make_server(settings, ready.set)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await reach(ready, running)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await running
        listener.close()


def read_whole_lines(log: Path) -> str:
    """Returns a log up to its last end of a line: a line that is being written becomes readable page by page."""
    return log.read_bytes().rpartition(b"\n")[0].decode()


class Command:
    """`responses-gateway serve` as a process of its own."""

    def __init__(self, process: "subprocess.Popen[str] | Forked", url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    def read_log(self) -> str:
        """Returns the lines of the log that are whole."""
        return read_whole_lines(self.log)

    def read_log_lines(self) -> list[dict[str, Any]]:
        """Returns what the whole lines of the log say. Raises json.JSONDecodeError if one is no JSON."""
        return [json.loads(line) for line in self.read_log().splitlines()]


@contextmanager
def command(
    config: Mapping[str, Any],
    folder: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    within: Sequence[str] = (),
    forked: bool = False,
    port: int | None = 0,
) -> Iterator[Command]:
    """Starts the command on a free port, or on `port`, by None that of its settings.

    It waits for its `listening on` line, and stops it with SIGTERM if still running.

    `within` is a command that executes it with fewer rights or in another environment. `forked` starts it from a
    process that has already imported the gateway (tests/forking.py), which is ten times faster.
    """
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(be_patient(config), sort_keys=False))
    log = folder / "gateway.log"
    port_options = [] if port is None else ["--port", str(port)]
    serve = ["serve", "--config", str(file), *port_options, *arguments]
    environment = {**os.environ, **(env or {})}
    process: subprocess.Popen[str] | Forked
    with log.open("w") as stderr:
        if forked:
            process = fork_command(serve, folder, stderr, environment)
        else:
            process = subprocess.Popen(
                [*within, str(Path(sys.executable).with_name("responses-gateway")), *serve],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=folder,
                env=environment,
            )
    assert process.stdout is not None
    giving_up = threading.Timer(START_S, process.kill)
    giving_up.start()
    try:
        line = process.stdout.readline()
        giving_up.cancel()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the gateway did not start: {log.read_text()}")
        yield Command(process, line.removeprefix("listening on ").strip(), log)
    finally:
        giving_up.cancel()
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(READY_S)
        finally:
            process.kill()
            process.stdout.close()
