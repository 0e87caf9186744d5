"""The processes of a run: started on one core, read through /proc, ended by id."""

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

_LISTENING = re.compile(r"listening on http://[^:]+:(\d+)")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STOP_S = 30


@dataclass(frozen=True)
class Server:
    """A running server and the port it listens on."""

    name: str
    port: int
    process: subprocess.Popen[str]

    def cpu_s(self) -> float:
        """User and system time of the whole process tree so far; steps of a hundredth of a second."""
        return sum(_cpu_ticks(pid) for pid in _tree(self.process.pid)) / _TICKS

    def resident_bytes(self) -> int:
        """Resident memory of the whole process tree."""
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE for pid in _tree(self.process.pid))


def announce(port: int) -> None:
    """Say where this process listens, in the words `listening` waits for."""
    print(f"listening on http://127.0.0.1:{port}", flush=True)


@contextmanager
def listening(
    name: str, command: Sequence[str], core: int | None, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start a server that prints where it listens; end it with the block. Raises RuntimeError if it does not start."""
    with _started(command, core, log, environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if match := _LISTENING.search(line):
                yield Server(name, int(match[1]), process)
                return
        raise RuntimeError(f"{name} did not start; its log is\n{log.read_text()[-2000:]}")


@contextmanager
def nginx(upstream: int, core: int | None, home: Path) -> Iterator[Server | None]:
    """An nginx that forwards everything to `upstream`, unbuffered; None where nginx is not installed."""
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if binary is None:
        yield None
        return
    port = _free_port()
    config = home / "nginx.conf"
    config.write_text(_NGINX.format(home=home, port=port, upstream=upstream))
    command = [binary, "-p", str(home), "-c", str(config), "-e", str(home / "nginx-error.log")]
    with _started(command, core, home / "nginx.log", None) as process:
        _wait_until_accepting(port, process)
        yield Server("nginx", port, process)


_NGINX = """
daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi; uwsgi_temp_path {home}/uwsgi; scgi_temp_path {home}/scgi;
  keepalive_requests 1000000;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 1000000; }}
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
def _started(
    command: Sequence[str], core: int | None, log: Path, environment: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[str]]:
    def pin() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})

    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
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
    """A load generator; it speaks over its stdin and stdout, see `bench.load`."""
    with _started([sys.executable, "-m", "bench.load", spec], core, log, None) as process:
        yield process


def cores() -> tuple[int | None, int | None]:
    """(for what is measured, for load and upstream); (None, None) on a machine with one core."""
    mine = sorted(os.sched_getaffinity(0))
    return (mine[0], mine[1]) if len(mine) > 1 else (None, None)


def _tree(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the listing and the reading
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    tree = [root]
    for pid in tree:
        tree += parents.get(pid, [])
    return tree


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_accepting(port: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        os.sched_yield()
    raise RuntimeError(f"nginx ended with status {process.returncode}")
