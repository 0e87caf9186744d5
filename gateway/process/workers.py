"""Supervises several server processes on one listening socket: starts them, replaces dead ones, stops them together."""

import multiprocessing
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from types import FrameType
from typing import TypeAlias

import structlog

WorkerTarget: TypeAlias = Callable[[socket.socket, Callable[[], None]], None]
"""The function that a process runs: it serves a socket until SIGTERM and calls its second argument when it is ready.

It must be picklable.
"""

_log = structlog.get_logger(__name__)

_WATCH_INTERVAL_S = 0.5
_MAX_RESTARTS = 10
"""The total number of dead workers after which the server stops: restarting does not help workers that keep dying."""


class WorkerPool:
    """Runs `count` worker processes.

    `run` blocks until SIGTERM or SIGINT. It returns False if it stopped because too many workers had died.
    """

    def __init__(self, work: WorkerTarget, listener: socket.socket, count: int) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._work = work
        self._listener = listener
        self._count = count
        self._stopping = threading.Event()
        self._workers: list[BaseProcess] = []

    def run(self, on_ready: Callable[[], None]) -> bool:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        ready = self._context.Semaphore(0)
        signal_ready = partial(_release_semaphore, ready)
        self._workers = [self._start_worker(signal_ready) for _ in range(self._count)]
        threading.Thread(target=self._announce_when_ready, args=(ready, on_ready), daemon=True).start()
        deaths = 0
        while not self._stopping.wait(_WATCH_INTERVAL_S):
            for index, worker in enumerate(self._workers):
                if worker.is_alive() or self._stopping.is_set():
                    continue
                deaths += 1
                _log.error("worker_died", pid=worker.pid, exit_code=worker.exitcode)
                if deaths > _MAX_RESTARTS:
                    self._stopping.set()
                    break
                self._workers[index] = self._start_worker(signal_ready)
        for worker in self._workers:
            if worker.is_alive():
                worker.terminate()
        for worker in self._workers:
            worker.join()
        return deaths <= _MAX_RESTARTS

    def _start_worker(self, ready: Callable[[], None]) -> BaseProcess:
        worker = self._context.Process(target=self._work, args=(self._listener, ready))
        worker.start()
        return worker

    def _announce_when_ready(self, ready: Semaphore, on_ready: Callable[[], None]) -> None:
        for _ in range(self._count):
            ready.acquire()
        on_ready()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping.set()


def _release_semaphore(ready: Semaphore) -> None:
    """Release a semaphore. Unlike the semaphore's own method, this function can be pickled for another process."""
    ready.release()
