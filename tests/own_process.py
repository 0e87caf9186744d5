"""What a test may look for in its own process, which servers and libraries of other tests and fixtures share.

Threads, tasks, descriptors and objects of others come and go at any time. So their number says nothing: a test looks
for its own, by what nobody else has.
"""

import asyncio
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

DESCRIPTORS = Path("/proc/self/fd")


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


def _list_descriptors() -> list[int]:
    return [int(each.name) for each in DESCRIPTORS.iterdir()]


def _try(read: Callable[[Any], T], of: object) -> T | None:
    """Returns nothing for a descriptor that was closed since it was listed."""
    with suppress(OSError):
        return read(of)
    return None
