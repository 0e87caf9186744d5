"""The worker template: a process that has imported the server once, and forks the worker processes."""

import gc
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from struct import Struct
from typing import Final, NoReturn

_STATUS: Final = Struct("i")
"""A number in the status pipe of a worker: first its process id, then its exit code."""

_GROUP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that a whole process group may get. The template ends with its supervisor instead, after its workers."""

_UNKNOWN_EXIT_CODE: Final = 255

_REQUEST: Final = b"w"

_READ_BYTES: Final = 4096


class TemplateDied(Exception):
    """The template has ended, so it forks no further worker."""


class ForkedWorker:
    """A worker process. It has the part of the interface of `multiprocessing.Process` that the supervisor needs.

    It is a child of the template, which reports its end through a pipe. If the template dies, the end can no longer
    be reported, and the worker counts as ended: it ends by itself when its supervisor closes the pipe of its updates.
    """

    def __init__(self, pid: int, status: int) -> None:
        self.pid: Final = pid
        self.exitcode: int | None = None
        self._status = status

    def is_alive(self) -> bool:
        """Returns whether the process runs."""
        if self.exitcode is None and select.select([self._status], [], [], 0)[0]:
            self.join()
        return self.exitcode is None

    def join(self) -> None:
        """Waits until the process has ended."""
        if self.exitcode is None:
            code = _read_status(self._status)
            self.exitcode = _UNKNOWN_EXIT_CODE if code is None else code
            os.close(self._status)


class WorkerTemplate:
    """The supervisor's connection to the template. Creating it forks the template, which needs `can_fork()`.

    The template calls `prepare` before it forks the first worker. Each worker calls `run` with the pipe of its updates,
    and ends when that returns. The template has `listener` open too, for the workers that it will fork.
    """

    def __init__(self, listener: socket.socket, prepare: Callable[[], None], run: Callable[[Connection], None]) -> None:
        self._requests, requests = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, _GROUP_SIGNALS)
        self._pid = os.fork()
        if self._pid == 0:
            self._requests.close()
            _run_template(requests, listener, prepare, run)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _GROUP_SIGNALS)
        requests.close()

    def start_worker(self, updates: Connection) -> ForkedWorker:
        """Starts a worker that reads `updates`. Waits until the template is prepared. Raises TemplateDied."""
        status, report = os.pipe()
        try:
            socket.send_fds(self._requests, [_REQUEST], [updates.fileno(), report])
        except OSError as error:
            os.close(status)
            raise TemplateDied from error
        finally:
            os.close(report)
        pid = _read_status(status)
        if pid is None:
            os.close(status)
            raise TemplateDied
        return ForkedWorker(pid, status)

    def stop(self) -> None:
        """Starts no further worker. The template closes the listener, and ends when its workers have ended."""
        with suppress(OSError):  # the template has died
            self._requests.shutdown(socket.SHUT_WR)

    def join(self) -> None:
        """Waits until the template has ended, after `stop` or SIGKILL."""
        os.waitpid(self._pid, 0)
        self._requests.close()

    def discard(self) -> None:
        """Ends the template at once, if it still runs."""
        os.kill(self._pid, signal.SIGKILL)
        self.join()


def can_fork() -> bool:
    """Returns whether this process may be forked.

    Threads would be missing in the copy, and the locks that they hold would be locked there for ever. On macOS, system
    libraries start threads of their own.
    """
    return sys.platform == "linux" and threading.active_count() == 1


def _run_template(
    requests: socket.socket, listener: socket.socket, prepare: Callable[[], None], run: Callable[[Connection], None]
) -> NoReturn:
    """Forks workers until the supervisor stops. In the template and in each worker this ends the process."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    prepare()
    gc.collect()
    gc.freeze()  # the collector would otherwise write to shared pages, and so copy them
    run(_fork_workers(requests, listener))
    sys.exit(0)


def _fork_workers(requests: socket.socket, listener: socket.socket) -> Connection:
    """Forks a worker for each request, and reports its id and its end. Returns only in the workers, with their pipe.

    When there are no further requests, because the supervisor stops or has died, it closes the listener, so that
    clients can no longer connect, and ends the process after the last worker.
    """
    ended, end = socket.socketpair()
    for waking in (ended, end):
        waking.setblocking(False)
    signal.set_wakeup_fd(end.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a signal without a handler does not write to the wakeup file
    reports: dict[int, int] = {}
    sources = [ended, requests]
    while requests in sources or reports:
        readable, _, _ = select.select(sources, [], [])
        if ended in readable:
            with suppress(BlockingIOError):
                ended.recv(_READ_BYTES)
            _report_ends(reports)
        if requests not in readable:
            continue
        message, files, _, _ = socket.recv_fds(requests, len(_REQUEST), 2)
        if not message:
            listener.close()
            sources.remove(requests)
            continue
        updates, report = files
        pid = os.fork()
        if pid == 0:
            break
        os.close(updates)
        with suppress(BrokenPipeError):  # the supervisor has died
            os.write(report, _STATUS.pack(pid))
        reports[pid] = report
    else:
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    for connection in (requests, ended, end):
        connection.close()
    for other in (*reports.values(), report):
        os.close(other)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _GROUP_SIGNALS)
    return Connection(updates, writable=False)


def _report_ends(reports: dict[int, int]) -> None:
    """Reports the exit code of each worker that has ended since the last call."""
    with suppress(ChildProcessError):  # the process has no children
        while pid := (ended := os.waitpid(-1, os.WNOHANG))[0]:
            report = reports.pop(pid)
            with suppress(BrokenPipeError):
                os.write(report, _STATUS.pack(os.waitstatus_to_exitcode(ended[1])))
            os.close(report)


def _read_status(status: int) -> int | None:
    """Waits for the next number in a status pipe. Returns None if the template has died."""
    data = os.read(status, _STATUS.size)
    return _STATUS.unpack(data)[0] if data else None
