"""Starts the command, or a parser server, in processes forked from one that has already imported it, in a tenth of the
time.

Such processes share nothing but the imported modules. Tests of the start itself, of the end of the interpreter or of a
process's environment start the real command instead.
"""

import atexit
import gc
import io
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

_MESSAGE_BYTES = 1 << 16
_STOP_S = 60.0
_FORK_S = 90.0
"""Seconds for a fork, before the first of which a subcommand's modules are imported."""

COMMAND = "responses-gateway"
PARSER_SERVER = "parsers"

ANSWER = struct.Struct("=QQ")
"""The number of a request, and the id of the process that was forked for it."""

_IMPORTS = (
    "asyncpg",
    "gateway.process.server",
    "gateway.process.workers",
    "gateway.state.database.migrate",
    "gateway.state.sql.store",
)

_FURTHER_IMPORTS: Mapping[str, Sequence[str]] = {
    "serve": (
        "gateway.tools.mcp.operator_server",
        "gateway.tools.operator_servers.opening",
        "gateway.tools.loop_exchange",
        "uvicorn.lifespan.on",
        "uvicorn.loops.uvloop",
    ),
    "doctor": ("gateway.doctor.command", "gateway.tools.mcp.operator_server", "mcp.server.lowlevel"),
}
"""Modules that the processes of a subcommand may need in addition. The MCP library alone takes half a second of CPU."""


_numbers = itertools.count(1)
_forking = threading.Lock()
"""Held from a request to its answer: servers of several threads may start parser servers at once."""

make_pipe = os.pipe


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
            with suppress(ProcessLookupError):  # it has ended since
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
    stdout, to_stdout = make_pipe()
    try:
        try:
            pid, exit_pipe = _fork(COMMAND, arguments, folder, env, (to_stdout, stderr.fileno()))
        finally:
            os.close(to_stdout)
    except BaseException:
        os.close(stdout)
        raise
    return Forked(pid, os.fdopen(stdout), exit_pipe)


def fork_parser_server(control: int, method: str) -> Forked:
    """Starts a parser server, which has the socket `control` as its standard output. It prints nothing."""
    pid, exit_pipe = _fork(PARSER_SERVER, ["1", method], Path.cwd(), os.environ, (control, 2))
    return Forked(pid, io.StringIO(), exit_pipe)


def _fork(
    program: str, arguments: Sequence[str], folder: Path, env: Mapping[str, str], outputs: tuple[int, int]
) -> tuple[int, int]:
    """Starts a program with these descriptors as its standard output and standard error. Returns the id of its process,
    and the end of a pipe for reading its exit code."""
    number = next(_numbers)
    request = {"number": number, "arguments": list(arguments), "folder": str(folder), "env": dict(env)}
    exit_pipe, to_exit_pipe = make_pipe()
    try:
        try:
            with _forking:
                server = _fork_server(program)
                socket.send_fds(server, [json.dumps(request).encode() + b"\n"], [*outputs, to_exit_pipe])
                return receive_pid(server, number), exit_pipe
        finally:
            os.close(to_exit_pipe)
    except BaseException:
        os.close(exit_pipe)
        raise


def receive_pid(answers: socket.socket, number: int) -> int:
    """Returns the process that was forked for a request.

    A test whose deadline passed did not read its answer: the process of that answer is ended, because nobody else knows
    it.
    """
    while True:
        answered, pid = ANSWER.unpack(answers.recv(ANSWER.size))
        if answered == number:
            return int(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run_forked(*arguments: str, folder: Path, timeout: float) -> "subprocess.CompletedProcess[str]":
    """Runs the command to its end. Returns its exit code and its output."""
    with tempfile.TemporaryFile("w+") as stderr:
        process = fork_command(arguments, folder, stderr, os.environ)
        # Its output ends with it.
        giving_up = threading.Timer(timeout, process.kill)
        giving_up.start()
        try:
            with process.stdout:
                output = process.stdout.read()
            code = process.wait(timeout)
        finally:
            giving_up.cancel()
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, code, output, stderr.read())


@cache
def _fork_server(program: str) -> socket.socket:
    """Returns the socket of the process that forks a program. It is started for the first fork and ends with the
    tests."""
    ours, theirs = socket.socketpair()
    ours.settimeout(_FORK_S)
    with theirs:
        forking = [sys.executable, "-m", __name__, str(theirs.fileno()), program]
        process = subprocess.Popen(forking, pass_fds=[theirs.fileno()])

    def stop() -> None:
        ours.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)

    atexit.register(stop)
    return ours


def _load_program(program: str) -> Callable[[], object]:
    """Returns the function that runs a program, whose modules are imported."""
    if program == PARSER_SERVER:
        from gateway.retrieval.parsing import parser_server
        from gateway.retrieval.parsing.file_text import load_parsers

        load_parsers()
        # Once for all: to find that nothing is left to import takes a third of a start.
        parser_server.__dict__["load_parsers"] = lambda: None
        gc.collect()
        gc.freeze()
        return parser_server.main
    from gateway.cli.commands import main

    return main


@cache
def _import_modules_of(subcommand: str) -> None:
    """Imports the modules that a subcommand imports when it needs them, so that forked processes share them."""
    from gateway.process.huge_pages import use_huge_pages
    from gateway.process.serving import hide_terminal_packages

    with hide_terminal_packages():
        for name in (*_IMPORTS, *_FURTHER_IMPORTS.get(subcommand, ())):
            import_module(name)
    if subcommand == "serve":
        _prepare_servers()
    gc.collect()
    gc.freeze()
    # A fork copies the table of pages. Large pages make it four times faster.
    use_huge_pages()


def _prepare_servers() -> None:
    """Builds an application, so that forked servers share what libraries import and cache as routes are added."""
    from gateway.config.settings import parse_settings
    from gateway.http.guard import DrainState
    from gateway.process import server as server_module
    from gateway.process.app import create_app
    from tests.shared.route_analysis import Replacing, share_route_analysis

    share_route_analysis(Replacing())
    create_app(parse_settings({"store": {"url": None}}, environ={}), DrainState())
    # It would copy all that a process shares with this one.
    server_module.__dict__["use_huge_pages"] = lambda: None


def _serve_forks(requests: socket.socket, program: str) -> bool:
    """Forks a process for each request, until the socket is closed. Then it ends the processes that still run.

    Returns True in a forked process that is to run the program, and False in the fork server itself.
    """
    exit_pipes: dict[int, int] = {}
    ended, end = socket.socketpair()
    for waking in (ended, end):
        waking.setblocking(False)
    # The handler of a signal that comes just before a wait would run after that wait. The byte ends it at once.
    signal.set_wakeup_fd(end.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a signal without a handler does not write to the wakeup file
    while True:
        readable, _, _ = select.select([ended, requests], [], [])
        if ended in readable:
            with suppress(BlockingIOError):
                ended.recv(_MESSAGE_BYTES)
            _report_exits(exit_pipes)
        if requests not in readable:
            continue
        message, files = _receive_request(requests)
        if not message:
            # Nobody waits for these any more, and whoever started them may have been killed.
            for running in exit_pipes:
                os.kill(running, signal.SIGKILL)
            return False
        stdout, stderr, exit_pipe = files
        request = json.loads(message)
        if program == COMMAND:
            _import_modules_of(request["arguments"][0])
        pid = os.fork()
        if pid == 0:
            break
        exit_pipes[pid] = exit_pipe
        with suppress(BrokenPipeError):  # the next request is the end of the socket
            requests.send(ANSWER.pack(request["number"], pid))
        os.close(stdout)
        os.close(stderr)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ended.close()
    end.close()
    requests.close()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for file in (*files, *exit_pipes.values()):
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = [program, *request["arguments"]]
    return True


def _report_exits(exit_pipes: dict[int, int]) -> None:
    """Writes the exit code of each process that has ended into its pipe, and forgets it."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with suppress(BrokenPipeError):  # its reader has ended
                os.write(exit_pipes[pid], str(os.waitstatus_to_exitcode(status)).encode())
            os.close(exit_pipes.pop(pid))


def _receive_request(requests: socket.socket) -> tuple[bytes, list[int]]:
    """Returns a request and the files that came with it. It is empty if the socket is closed."""
    try:
        message, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 3)
        while not message.endswith(b"\n"):
            if not (more := requests.recv(_MESSAGE_BYTES)):
                return b"", files
            message += more
    except ConnectionError:  # answers were not read
        return b"", []
    return message, files


def _end_process(exit_codes: Sequence[int]) -> None:
    """Ends a forked process with the last of its exit codes, and without the end of the interpreter.

    That would free each object, which is half of the work of a short process. The fork server itself has no exit code.
    """
    if exit_codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_codes[-1])


if __name__ == "__main__":
    # Registered first, and so called last.
    exit_codes: list[int] = []
    atexit.register(_end_process, exit_codes)

    main = _load_program(sys.argv[2])
    if _serve_forks(socket.socket(fileno=int(sys.argv[1])), sys.argv[2]):
        exit_codes.append(1)
        try:
            main()
        except SystemExit as end:
            exit_codes.append(end.code if isinstance(end.code, int) else int(end.code is not None))
            raise
        exit_codes.append(0)
