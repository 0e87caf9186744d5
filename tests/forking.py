"""The command in processes that are forked from one which has imported it: they start in a tenth of the time.

All that such a process shares with others is the modules as they were imported. What a test says of the start itself,
of workers, or of what surrounds a process, it says of the real command.
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
from pathlib import Path
from typing import IO

_MESSAGE_BYTES = 1 << 16


class Forked:
    """A process of the command, with what tests need of `subprocess.Popen`."""

    def __init__(self, pid: int, stdout: IO[str], ended: int) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        return self._hear_of_its_end(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._hear_of_its_end(timeout)
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

    def _hear_of_its_end(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            self.returncode = int(os.read(self._ended, _MESSAGE_BYTES))
            os.close(self._ended)
        return self.returncode


def fork_command(arguments: Sequence[str], folder: Path, stderr: IO[str], env: Mapping[str, str]) -> Forked:
    """Run `responses-gateway ARGUMENTS` in a folder and in no other environment than `env`."""
    asked = json.dumps({"arguments": list(arguments), "folder": str(folder), "env": dict(env)}).encode() + b"\n"
    stdout, to_stdout = os.pipe()
    ended, to_ended = os.pipe()
    socket.send_fds(_nursery(), [asked], [to_stdout, stderr.fileno(), to_ended])
    os.close(to_stdout)
    os.close(to_ended)
    return Forked(int(_nursery().recv(_MESSAGE_BYTES)), os.fdopen(stdout), ended)


def run_forked(*arguments: str, folder: Path, timeout: float) -> "subprocess.CompletedProcess[str]":
    """Run it to its end, and what it said."""
    with tempfile.TemporaryFile("w+") as stderr:
        process = fork_command(arguments, folder, stderr, os.environ)
        with process.stdout:
            said = process.stdout.read()
        code = process.wait(timeout)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, code, said, stderr.read())


@cache
def _nursery() -> socket.socket:
    """To the process that forks. It is started for the first command and ends with the tests."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen([sys.executable, "-m", __name__, str(theirs.fileno())], pass_fds=[theirs.fileno()])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _nurse(requests: socket.socket) -> bool:
    """Fork for each request. Whether this is the process that was asked for: the others get here when no more come."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 3)
        if not message:
            return False
        while not message.endswith(b"\n"):
            message += requests.recv(_MESSAGE_BYTES)
        stdout, stderr, ended = files
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
        os.write(ended, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    requests.close()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for file in files:
        os.close(file)
    asked = json.loads(message)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["responses-gateway", *asked["arguments"]]
    return True


if __name__ == "__main__":
    from gateway.cli.commands import main
    from gateway.process.serving import lean_imports

    with lean_imports():
        import gateway.process.server
        import gateway.process.workers
        import gateway.state.database.migrate
        import gateway.state.sql.store  # noqa: F401
    gc.collect()
    gc.freeze()
    if _nurse(socket.socket(fileno=int(sys.argv[1]))):
        main()
