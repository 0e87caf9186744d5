"""The soak knows how many tasks the gateway has."""

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from bench.servers.gateway import start_gateway
from bench.servers.processes import Server
from bench.soak.counting_gateway import read_task_count

OPEN = 30
_BODY = b'{"model": "m", "input": "Hello", "stream": true}'
_QUESTION = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(_BODY), _BODY)


def test_the_tasks_of_a_running_gateway_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "tasks"
    with socket.create_server(("127.0.0.1", 0), backlog=OPEN) as silent:
        upstream = Server("direct", silent.getsockname()[1], cast("subprocess.Popen[str]", None))
        program = (sys.executable, "-m", "bench.soak.counting_gateway", str(file))
        with start_gateway(upstream, None, tmp_path, program=program) as server:
            at_rest = read_task_count(file)  # a few: some belong to the start
            assert at_rest > 0
            with ExitStack() as connections:
                for _ in range(OPEN):
                    asking = connections.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                    asking.sendall(_QUESTION)
                for _ in range(OPEN):
                    connections.enter_context(silent.accept()[0])
                while read_task_count(file) < at_rest + OPEN // 2:
                    _look(server.port)
            while read_task_count(file) > at_rest:
                _look(server.port)


def _look(port: int) -> None:
    """Waits for a turn of the server's loop."""
    with socket.create_connection(("127.0.0.1", port)) as asking:
        asking.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert asking.recv(12) == b"HTTP/1.1 200"
