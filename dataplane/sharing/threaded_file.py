"""Opens, uses and closes files in threads, for tasks that may be cancelled meanwhile."""

import errno
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, TypeVar

_FileT = TypeVar("_FileT")
_ResultT = TypeVar("_ResultT")


class ThreadedFile(Generic[_FileT]):
    """An open file, or the number of its descriptor. `close_file` closes it.

    When a task is cancelled, it closes the file while a thread may still be about to open or use it. So only one thread
    at a time opens, uses or closes the file, and it is never opened again after it was closed.
    """

    def __init__(self, close_file: Callable[[_FileT], object]) -> None:
        self._close_file: Final = close_file
        self._lock = threading.Lock()
        self._file: _FileT | None = None
        self._is_closed = False

    def open(self, open_file: Callable[[], _FileT]) -> None:
        """Opens the file. Raises what `open_file` raises, and OSError if it was closed."""
        with self._lock:
            if self._is_closed:
                raise _build_closed_error()
            self._file = open_file()

    def use(self, work: Callable[[_FileT], _ResultT]) -> _ResultT:
        """Returns what `work` returns, which uses the file. Raises OSError if it is not open."""
        with self._lock:
            if self._file is None:
                raise _build_closed_error()
            return work(self._file)

    def close(self) -> None:
        """Closes the file if it is open. It may be called at any time."""
        with self._lock:
            self._is_closed = True
            file, self._file = self._file, None
            if file is not None:
                self._close_file(file)


@asynccontextmanager
async def open_in_pool(
    run: Callable[[Callable[[], Any]], Awaitable[Any]],
    open_file: Callable[[], _FileT],
    close_file: Callable[[_FileT], object],
) -> AsyncGenerator[ThreadedFile[_FileT], None]:
    """Opens a file for the block, and closes it, both in threads. `run` runs a function in a thread, to its end.

    Raises what `run` and `open_file` raise.
    """
    file = ThreadedFile(close_file)
    try:
        await run(partial(file.open, open_file))
        yield file
    finally:
        await run(file.close)


def _build_closed_error() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))
