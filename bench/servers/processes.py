"""Starts the processes of a run on one core each, reads their usage from /proc, and ends them by id."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from bench.servers import process_tree
from bench.servers.process_tree import Usage

_LISTENING = re.compile(r"listening on http://[^:]+:(\d+)")
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
        return process_tree.cpu_s(self.process.pid)

    def resident_bytes(self) -> int:
        """Returns the resident memory of the whole process tree."""
        return process_tree.resident_bytes(self.process.pid)

    def usage(self) -> Usage:
        """Returns the memory, files and threads of the whole process tree."""
        return process_tree.usage(self.process.pid)


def announce(port: int) -> None:
    """Prints the address of this process in the form that `start_announcing_server` waits for."""
    print(f"listening on http://127.0.0.1:{port}", flush=True)


@contextmanager
def start_announcing_server(
    name: str, command: Sequence[str], core: int | None, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Starts a server that prints its address, and ends it with the block. Raises RuntimeError if it does not start."""
    with _start_process(command, core, log, environment) as process:
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
    with _start_process(command, core, log, environment, quiet=True) as process:
        if not _wait_until_accepting(port, process):
            raise RuntimeError(f"{name} did not start; its log is\n{log.read_text()[-2000:]}")
        yield Server(name, port, process)


@contextmanager
def nginx(upstream: int, core: int | None, home: Path) -> Iterator[Server | None]:
    """Starts an nginx that forwards everything to `upstream` unbuffered. Yields None if nginx is not installed."""
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if binary is None:
        yield None
        return
    port = free_port()
    config = home / "nginx.conf"
    config.write_text(_NGINX.format(home=home, port=port, upstream=upstream))
    command = [binary, "-p", str(home), "-c", str(config), "-e", str(home / "nginx-error.log")]
    with start_server_on_port("nginx", command, port, core, home / "nginx.log") as server:
        yield server


_NGINX = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 8m;
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  keepalive_requests 1000000;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 300s;
    }}
  }}
}}
"""


@contextmanager
def _start_process(
    command: Sequence[str],
    core: int | None,
    log: Path,
    environment: Mapping[str, str] | None,
    *,
    quiet: bool = False,
) -> Iterator[subprocess.Popen[str]]:
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
def load(spec: str, core: int | None, log: Path) -> Iterator[subprocess.Popen[str]]:
    """Starts a load generator. It communicates over stdin and stdout; see `bench.load.generator`."""
    with _start_process([sys.executable, "-m", "bench.load.generator", spec], core, log, None) as process:
        yield process


def cores() -> tuple[int | None, int | None]:
    """Returns the cores (for the measured server, for load and upstream); (None, None) if there is only one core."""
    available = sorted(os.sched_getaffinity(0))
    return (available[0], available[1]) if len(available) > 1 else (None, None)


def free_port() -> int:
    """Returns a port that nothing listens on yet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_accepting(port: int, process: subprocess.Popen[str]) -> bool:
    deadline = monotonic() + _START_S
    while process.poll() is None and monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        sleep(_POLL_S)
    return False
