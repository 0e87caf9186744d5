"""Starts the processes of a run on one core each, reads their usage from /proc, and ends them by id."""

import os
import random
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from bench.servers import process_tree
from bench.servers.process_tree import TreeUsage

_LISTENING = re.compile(r"listening on http://[^:]+:(\d+)")
_FREE_PORTS = range(20_000, 32_000)
_STOP_S = 30
_START_S = 120
_POLL_S = 0.02


@dataclass(frozen=True)
class Server:
    """A running server and the port it listens on."""

    name: str
    port: int
    process: subprocess.Popen[str]

    def cpu_s(self) -> float:
        """Returns the user and system time of the whole process tree so far, in seconds."""
        return process_tree.read_cpu_s(self.process.pid)

    def resident_bytes(self) -> int:
        """Returns the resident memory of the whole process tree."""
        return process_tree.read_resident_bytes(self.process.pid)

    def usage(self) -> TreeUsage:
        """Returns the memory, files and threads of the whole process tree."""
        return process_tree.read_tree_usage(self.process.pid)


def announce(port: int) -> None:
    """Prints the address of this process in the form that `start_announcing_server` waits for."""
    print(f"listening on http://127.0.0.1:{port}", flush=True)


@contextmanager
def start_process(
    command: Sequence[str],
    core: int | None,
    log: Path,
    environment: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """Starts a process on one core, and ends it with the block. `quiet` writes its output to the log too."""

    def pin() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})

    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=errors if quiet else subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=pin,
            env={**os.environ, **(environment or {})},
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


@contextmanager
def start_announcing_server(
    name: str, command: Sequence[str], core: int | None, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Starts a server that prints its address, and ends it with the block. Raises RuntimeError if it does not start."""
    with start_process(command, core, log, environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if match := _LISTENING.search(line):
                yield Server(name, int(match[1]), process)
                return
        raise RuntimeError(f"{name} did not start; its log is\n{log.read_text()[-2000:]}")


@contextmanager
def start_server_on_port(
    name: str,
    command: Sequence[str],
    port: int,
    core: int | None,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Starts a server that prints nothing, waits until it listens on `port`, and ends it with the block.

    Raises RuntimeError if it does not start.
    """
    with start_process(command, core, log, environment, quiet=True) as process:
        if not _wait_until_accepting(port, process):
            raise RuntimeError(f"{name} did not start; its log is\n{log.read_text()[-2000:]}")
        yield Server(name, port, process)


def choose_cores() -> tuple[int | None, int | None]:
    """Returns the cores (for the measured server, for load and upstream); (None, None) if there is only one core."""
    available = sorted(os.sched_getaffinity(0))
    return (available[0], available[1]) if len(available) > 1 else (None, None)


def find_free_port() -> int:
    """Returns a port that nothing listens on yet, to be bound later.

    It is none of those that systems give to sockets without a port of their own, so that no connection takes it first.
    """
    while True:
        port = random.choice(_FREE_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _wait_until_accepting(port: int, process: subprocess.Popen[str]) -> bool:
    deadline = monotonic() + _START_S
    while process.poll() is None and monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        sleep(_POLL_S)
    return False
