"""What a test may look for in its own process, which servers and libraries of other tests and fixtures share.

Threads, tasks, descriptors and objects of others come and go at any time. So their number says nothing: a test looks
for its own, by what nobody else has. The same is true of the processor time that a process takes.
"""

import asyncio
import gc
import json
import os
import resource
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

DESCRIPTORS: Final = Path("/proc/self/fd")
_USUAL_S: Final = 0.022
"""What the work of `measure_slowness` takes where nothing else runs."""
_SCHEDULER: Final = "/proc/thread-self/schedstat"


def find_threads(name: str) -> set[threading.Thread]:
    """Returns the running threads of a name."""
    return {thread for thread in threading.enumerate() if thread.name == name}


def list_tasks() -> set[asyncio.Task[Any]]:
    """Returns the tasks of the running loop, to be told apart by what they were before."""
    return asyncio.all_tasks()


def identify_file(descriptor: int) -> tuple[int, int]:
    """Returns the device and the number of an open file, which no other file has while it is open."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def find_descriptors(file: tuple[int, int]) -> list[int]:
    """Returns the descriptors of one file, as `identify_file` identifies it."""
    return [descriptor for descriptor in _list_descriptors() if _try(identify_file, descriptor) == file]


def find_open_files(folder: Path) -> list[str]:
    """Returns the files below a folder that are open."""
    paths = [_try(os.readlink, DESCRIPTORS / str(descriptor)) for descriptor in _list_descriptors()]
    return [path for path in paths if path is not None and path.startswith(str(folder))]


def list_open_files() -> set[tuple[int, str]]:
    """Returns all descriptors with what they are of, to be told apart by what they were before."""
    found = ((each, _try(os.readlink, DESCRIPTORS / str(each))) for each in _list_descriptors())
    return {(descriptor, name) for descriptor, name in found if name is not None}


class NewObjects:
    """The objects of some kinds that are made between the moment this is and `find`."""

    def __init__(self, *kinds: type) -> None:
        self._kinds = kinds
        self._before = {id(each): weakref.ref(each) for each in self._iterate_all()}
        self._found: list[weakref.ref[Any]] = []

    def find(self) -> None:
        self._found = [weakref.ref(each) for each in self._iterate_all() if not self._is_known(each)]

    def list_left(self) -> list[str]:
        """Returns the kinds of those that were found and still exist."""
        gc.collect()
        return [type(each).__name__ for reference in self._found if (each := reference()) is not None]

    def _is_known(self, each: object) -> bool:
        reference = self._before.get(id(each))
        return reference is not None and reference() is each

    def _iterate_all(self) -> Iterator[Any]:
        return (each for each in gc.get_objects() if type(each) in self._kinds)


class Cost(NamedTuple):
    """What all of the process took, others too: only for bounds that are many times what is expected."""

    processor_s: float
    peak_bytes: int
    """By how much the most memory that the process ever had has grown."""


@contextmanager
def measuring_cost() -> Iterator[list[Cost]]:
    """Yields a list that has the cost of the block once it has ended."""
    found: list[Cost] = []
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    yield found
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found.append(Cost(time.process_time() - began, (after - before) * 1024))


def measure_slowness() -> float:
    """Returns how many times as long as on the machine on which bounds are set something takes now; at least 1.

    The same work takes more processor time on a slower machine, and where others use the caches of a processor.
    """
    began = time.thread_time()
    for _ in range(4):
        rows = [{"id": f"m{number}", "content": [{"type": "text", "text": "x" * 20}]} for number in range(3000)]
        assert len(json.loads(json.dumps(rows))) == len(rows)
    return max(1.0, (time.thread_time() - began) / _USUAL_S)


class _Moment(NamedTuple):
    process_s: float
    """The processor time of the process so far."""
    unhindered_s: float
    """The time so far in which this thread did not wait for a processor."""


class StallWatch:
    """Measures the longest time between two turns of the running loop, in whose thread it is made.

    A stall is what lies between two turns of the loop, and neither a slow machine nor a test that runs beside this one
    may add to it. Two figures hold all of a stall, and something of the machine's load each: the processor time of the
    process, to which other threads add while the loop's thread waits for a processor, and the time of the clock without
    those waits, to which a thread adds that waits itself while it holds the interpreter's lock. The smaller one counts,
    in seconds of a machine as fast as the one on which bounds are set. What tests have left is collected before.
    """

    def __init__(self) -> None:
        gc.collect()
        self._loop = asyncio.get_running_loop()
        self._scheduler: int | None = None
        with suppress(OSError):  # not every system tells
            self._scheduler = os.open(_SCHEDULER, os.O_RDONLY)
            weakref.finalize(self, os.close, self._scheduler)
        self._longest_s = 0.0
        self._turn = self._read_moment()
        self._take_turn()

    @property
    def longest_s(self) -> float:
        return self._longest_s / measure_slowness()

    def _take_turn(self) -> None:
        now = self._read_moment()
        stall_s = min(now.process_s - self._turn.process_s, now.unhindered_s - self._turn.unhindered_s)
        self._longest_s, self._turn = max(self._longest_s, stall_s), now
        self._loop.call_later(0.001, self._take_turn)

    def _read_moment(self) -> _Moment:
        waited_s = 0.0
        if self._scheduler is not None:
            waited_s = int(os.pread(self._scheduler, 100, 0).split()[1]) / 1e9
        return _Moment(time.process_time(), time.monotonic() - waited_s)


def _list_descriptors() -> list[int]:
    return [int(each.name) for each in DESCRIPTORS.iterdir()]


def _try(read: Callable[[Any], T], of: object) -> T | None:
    """Returns nothing for a descriptor that was closed since it was listed."""
    with suppress(OSError):
        return read(of)
    return None
