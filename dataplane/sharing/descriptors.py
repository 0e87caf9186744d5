"""Recognizes a lack of file descriptors, and frees those that idle connections of this event loop hold."""

import asyncio
import errno
import os
import socket
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

_LACKS: Final = frozenset({errno.EMFILE, errno.ENFILE})

_VAGUE: Final = frozenset({None, socket.EAI_SYSTEM, socket.EAI_AGAIN, socket.EAI_NONAME, socket.EAI_FAIL})
"""The numbers of errors that may hide a lack: several failed addresses, or a lookup that could not open its files."""


class IdlePool(Protocol):
    """Holds idle connections, which may be closed at any time."""

    def close_idle(self) -> None:
        """Closes all idle connections."""


_pools: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[IdlePool]]] = WeakKeyDictionary()


def register_idle_pool(pool: IdlePool) -> None:
    """Adds a pool to those of the running event loop whose idle connections are closed when descriptors are scarce."""
    _pools.setdefault(asyncio.get_running_loop(), WeakSet()).add(pool)


def close_idle_connections() -> None:
    """Closes the idle connections of all pools of the running event loop."""
    for pool in list(_pools.get(asyncio.get_running_loop(), ())):
        pool.close_idle()


def is_lack_of_descriptors(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, says that the process or the system has no free descriptor."""
    while error is not None:
        cause = error.__cause__ or error.__context__  # httpcore names no cause
        if isinstance(error, OSError):
            if error.errno in _LACKS:
                return True
            if cause is None and error.errno in _VAGUE:
                return not has_free_descriptor()
        error = cause
    return False


def has_free_descriptor() -> bool:
    """Whether the process can open two more files."""
    try:
        reader, writer = os.pipe()
    except OSError:
        return False
    os.close(reader)
    os.close(writer)
    return True
