"""Supervises several server processes on one listening socket: starts them, replaces dead ones, stops them together."""

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from types import FrameType
from typing import Final, TypeAlias

import structlog

from gateway.config.settings import ServerSettings, Settings
from gateway.process.updates import ConfigurationSource, SettingsUpdate, SettingsUpdates, on_hangup
from gateway.process.worker_template import ForkedWorker, TemplateDied, WorkerTemplate, can_fork

WorkerFunction: TypeAlias = Callable[[Settings, socket.socket, Callable[[], None], SettingsUpdates], None]
"""The function that a process runs: it serves a socket until SIGTERM and calls its third argument when it is ready.

It must be picklable.
"""

ImportModules: TypeAlias = Callable[[Settings], None]
"""Imports the modules that the workers of a configuration need."""

WorkerProcess: TypeAlias = BaseProcess | ForkedWorker

_log = structlog.get_logger(__name__)

_READY: Final = b"ready"

SKIP_LINGER: Final = signal.SIGUSR1
"""The signal upon which a worker closes its port as soon as it stops, without serving new requests before."""

_WATCH_INTERVAL_S: Final = 0.5

_EXIT_GRACE_S: Final = 15.0
"""Seconds beyond `server.drain_s` after which a worker without a supervisor ends by force."""


class WorkerPool:
    """Runs the worker processes of a server.

    `run` blocks until SIGTERM or SIGINT, and closes the socket then. It returns False if it stopped because too many
    workers had died.

    A template process calls `prepare` and forks the workers. If it cannot be forked, and after it has died, each
    worker is a new interpreter.
    """

    def __init__(
        self,
        work: WorkerFunction,
        prepare: ImportModules,
        source: ConfigurationSource,
        listener: socket.socket,
        server: ServerSettings,
    ) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._work = work
        self._prepare = prepare
        self._template: WorkerTemplate | None = None
        self._source = source
        self._listener = listener
        self._count = server.workers
        self._deaths = DeathCount(server.max_worker_deaths, server.worker_deaths_s)
        self._wake_up = threading.Event()
        self._is_stopping = False
        self._skips_linger = False
        self._reload_requested = False
        self._workers: list[_Worker] = []

    def run(self, on_ready: Callable[[], None]) -> bool:
        ready, signals = self._context.Pipe(duplex=False)
        signal_ready = partial(signals.send_bytes, _READY)
        if can_fork():
            prepare = partial(self._prepare, self._source.settings)
            run = partial(_run_supervised, self._work, self._listener, signal_ready)
            self._template = WorkerTemplate(self._listener, prepare, run)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        on_hangup(self._request_reload)
        self._workers = [self._start_worker(signal_ready) for _ in range(self._count)]
        threading.Thread(target=self._announce_when_ready, args=(ready, on_ready), daemon=True).start()
        while not self._is_stopping:
            self._wake_up.wait(_WATCH_INTERVAL_S)
            self._wake_up.clear()
            if self._reload_requested:
                self._reload_requested = False
                self._reload()
            for index, worker in enumerate(self._workers):
                if worker.process.is_alive() or self._is_stopping:
                    continue
                _log.error("worker_died", pid=worker.process.pid, exit_code=worker.process.exitcode)
                worker.close()
                if not self._deaths.add():
                    _log.error("too_many_worker_deaths", limit=self._deaths.limit, seconds=self._deaths.window_s)
                    self._is_stopping = True
                    break
                self._workers[index] = self._start_worker(signal_ready)
        # While this socket is open, clients could still connect, and would get no reply.
        self._listener.close()
        if self._template is not None:
            self._template.stop()
        for worker in self._workers:
            if self._skips_linger:
                worker.send_signal(SKIP_LINGER)
            worker.send_signal(signal.SIGTERM)
        for worker in self._workers:
            worker.process.join()
        if self._template is not None:
            self._template.join()
        return not self._deaths.is_over

    def _start_worker(self, ready: Callable[[], None]) -> "_Worker":
        receiver, sender = self._context.Pipe(duplex=False)
        with receiver:
            worker = _Worker(self._start_process(ready, receiver), sender)
        worker.send(self._source.settings)
        return worker

    def _start_process(self, ready: Callable[[], None], receiver: Connection) -> WorkerProcess:
        if self._template is not None:
            try:
                return self._template.start_worker(receiver)
            except TemplateDied:
                _log.error("worker_template_died")
                self._template.discard()
                self._template = None
        process = self._context.Process(target=_run_supervised, args=(self._work, self._listener, ready, receiver))
        process.start()
        return process

    def _announce_when_ready(self, ready: Connection, on_ready: Callable[[], None]) -> None:
        with suppress(EOFError, OSError):  # the server has stopped
            for _ in range(self._count):
                ready.recv_bytes()
            on_ready()
            while True:  # without a reader the pipe would fill, and later workers would wait
                ready.recv_bytes()

    def _reload(self) -> None:
        update = self._source.reload()
        for worker in self._workers:
            worker.send(update)

    def _request_reload(self) -> None:
        self._reload_requested = True
        self._wake_up.set()

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        if self._is_stopping:
            for worker in self._workers:
                worker.send_signal(signal.SIGINT if number == signal.SIGINT else SKIP_LINGER)
        self._skips_linger = self._skips_linger or self._is_stopping or number == signal.SIGINT
        self._is_stopping = True
        self._wake_up.set()


class DeathCount:
    """Counts deaths in the last `window_s` seconds: restarting does not help workers that keep dying."""

    def __init__(self, limit: int, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.window_s = window_s
        self._clock = clock
        self._deaths: deque[float] = deque()

    def add(self) -> bool:
        """Adds one death. Returns False if there are more than `limit` now."""
        now = self._clock()
        self._deaths.append(now)
        while self._deaths[0] <= now - self.window_s:
            self._deaths.popleft()
        return not self.is_over

    @property
    def is_over(self) -> bool:
        return len(self._deaths) > self.limit


class _Worker:
    """One worker process, and its pipe. A thread writes to the pipe, because a stopped process does not read it."""

    def __init__(self, process: WorkerProcess, sender: Connection) -> None:
        self.process = process
        self._updates: SimpleQueue[SettingsUpdate | None] = SimpleQueue()
        threading.Thread(target=self._send_updates, args=(sender,), daemon=True).start()

    def send(self, update: SettingsUpdate) -> None:
        self._updates.put(update)

    def close(self) -> None:
        """Closes the pipe of a dead process."""
        self._updates.put(None)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process, if it has not ended.

        SIGTERM stops it. SIGINT ends all streams of a process that is stopping.
        """
        # Not `is_alive`: signal handlers call this, perhaps while the main thread waits for the same process.
        if self.process.exitcode is None and self.process.pid is not None:
            with suppress(ProcessLookupError):  # the process has ended just now
                os.kill(self.process.pid, number)

    def _send_updates(self, sender: Connection) -> None:
        with sender:
            while (update := self._updates.get()) is not None:
                try:
                    sender.send(update)
                except OSError:
                    return  # the process has died


def _run_supervised(
    work: WorkerFunction, listener: socket.socket, on_ready: Callable[[], None], receiver: Connection
) -> None:
    """Runs a worker process. It stops when its supervisor has ended, for any reason.

    The first object in the pipe is the configuration to start with.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a signal to the whole group: the supervisor reloads for all
    try:
        settings: Settings = receiver.recv()
    except (EOFError, OSError):
        return  # the supervisor has ended
    updates = SettingsUpdates()
    exit_s = settings.server.drain_s + _EXIT_GRACE_S
    threading.Thread(target=_follow_supervisor, args=(receiver, updates, exit_s), daemon=True).start()
    work(settings, listener, on_ready, updates)


def _follow_supervisor(receiver: Connection, updates: SettingsUpdates, exit_s: float) -> None:
    """Passes on the updates of the supervisor. When it has ended, drains, and ends by force after `exit_s` seconds.

    The operating system closes the supervisor's end of the pipe when the supervisor ends, also by SIGKILL.
    """
    while True:
        try:
            updates.submit(receiver.recv())
        except (EOFError, OSError):
            break
    _log.error("supervisor_died")
    os.kill(os.getpid(), SKIP_LINGER)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(exit_s)
    os._exit(1)
