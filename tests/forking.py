"""Starts the command in processes forked from one that has already imported it, in a tenth of the time.

Such processes share nothing but the imported modules. Tests of the start itself or of a process's environment start the
real command instead.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

_MESSAGE_BYTES = 1 << 16

_IMPORTS = (
    "gateway.process.server",
    "gateway.process.workers",
    "gateway.state.database.migrate",
    "gateway.state.sql.store",
)

_FURTHER_IMPORTS: Mapping[str, Sequence[str]] = {
    "serve": ("gateway.mcp.operator_server", "gateway.operator_servers.opening", "gateway.tools.loop_exchange"),
    "doctor": ("gateway.doctor.command", "gateway.mcp.operator_server", "mcp.server.lowlevel"),
}
"""What the processes of a subcommand may need beyond that. The MCP library alone takes half a second of CPU."""


class Forked:
    """A forked process of the command, with the part of the interface of `subprocess.Popen` that tests need."""

    def __init__(self, pid: int, stdout: IO[str], exit_pipe: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._exit_pipe = exit_pipe

    def poll(self) -> int | None:
        return self._read_exit_code(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read_exit_code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("responses-gateway", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_exit_code(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._exit_pipe], [], [], timeout)[0]:
            self.returncode = int(os.read(self._exit_pipe, _MESSAGE_BYTES))
            os.close(self._exit_pipe)
        return self.returncode


def fork_command(arguments: Sequence[str], folder: Path, stderr: IO[str], env: Mapping[str, str]) -> Forked:
    """Starts `responses-gateway ARGUMENTS` in a folder, with `env` as its whole environment."""
    request = json.dumps({"arguments": list(arguments), "folder": str(folder), "env": dict(env)}).encode() + b"\n"
    stdout, to_stdout = os.pipe()
    exit_pipe, to_exit_pipe = os.pipe()
    socket.send_fds(_fork_server(), [request], [to_stdout, stderr.fileno(), to_exit_pipe])
    os.close(to_stdout)
    os.close(to_exit_pipe)
    return Forked(int(_fork_server().recv(_MESSAGE_BYTES)), os.fdopen(stdout), exit_pipe)


def run_forked(*arguments: str, folder: Path, timeout: float) -> "subprocess.CompletedProcess[str]":
    """Runs the command to its end. Returns its exit code and its output."""
    with tempfile.TemporaryFile("w+") as stderr:
        process = fork_command(arguments, folder, stderr, os.environ)
        with process.stdout:
            output = process.stdout.read()
        code = process.wait(timeout)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, code, output, stderr.read())


@cache
def _fork_server() -> socket.socket:
    """Returns the socket of the process that forks. It is started for the first command and ends with the tests."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-m", __name__, str(theirs.fileno())], pass_fds=[theirs.fileno()])

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


@cache
def _import_what_needs(subcommand: str) -> None:
    """Imports the modules that a subcommand imports when it needs them, so that forked processes share them."""
    from gateway.process.serving import lean_imports

    with lean_imports():
        for name in (*_IMPORTS, *_FURTHER_IMPORTS.get(subcommand, ())):
            import_module(name)
    gc.collect()
    gc.freeze()


def _serve_forks(requests: socket.socket) -> bool:
    """Forks a process for each request, until the socket is closed.

    Returns True in a forked process that is to run the command, and False in the fork server itself.
    """
    while True:
        message, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 3)
        if not message:
            return False
        while not message.endswith(b"\n"):
            message += requests.recv(_MESSAGE_BYTES)
        stdout, stderr, exit_pipe = files
        _import_what_needs(json.loads(message)["arguments"][0])
        if os.fork() == 0:
            break
        for file in files:
            os.close(file)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    if pid := os.fork():
        requests.send(str(pid).encode())
        for file in (requests.detach(), stdout, stderr):
            os.close(file)
        _, status = os.waitpid(pid, 0)
        os.write(exit_pipe, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    requests.close()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for file in files:
        os.close(file)
    request = json.loads(message)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["responses-gateway", *request["arguments"]]
    return True


if __name__ == "__main__":
    from gateway.cli.commands import main

    if _serve_forks(socket.socket(fileno=int(sys.argv[1]))):
        main()
