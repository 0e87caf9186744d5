"""Looks up the addresses of hosts that requests, pages and servers name: in threads that owners share.

A name can take half a minute to look up, and its thread cannot be stopped. So these names have threads of their own.
The threads of the event loop look up the operator's upstreams, which no other name may keep waiting.
"""

import asyncio
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from dataplane.sharing.fair_turns import FairTurns, PerLoop, current_owner

_LOOKUPS: Final = 32
"""The most names that are looked up at once. One owner alone has half of these threads."""


async def look_up_host(host: str, port: int) -> Sequence[str]:
    """Returns the addresses of a host from the system's resolver, once the owner of the running task has its turn.

    Raises OSError, and UnicodeError for an invalid name. If the caller is cancelled, the lookup goes on, and keeps its
    turn.
    """
    owner, turns = current_owner.get(), _turns.get()
    await turns.enter(owner)
    result: asyncio.Future[Sequence[str]] = asyncio.get_running_loop().create_future()
    result.add_done_callback(lambda _: turns.leave(owner))
    # No pool, whose threads the interpreter waits for when it ends.
    thread = threading.Thread(target=_look_up, args=(host, port, result), name="lookup", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the system allows no further thread
        result.set_exception(OSError(str(error)))
    return await asyncio.shield(result)


async def look_up_upstream(host: str, port: int) -> Sequence[str]:
    """Returns the addresses of a host that the operator wrote, in threads of the event loop. Raises like
    `look_up_host`."""
    return _read_addresses(await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM))


_turns: Final = PerLoop(lambda: FairTurns(_LOOKUPS))


def _look_up(host: str, port: int, result: asyncio.Future[Sequence[str]]) -> None:
    try:
        addresses = _read_addresses(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        report = partial(result.set_exception, error)
    else:
        report = partial(result.set_result, addresses)
    with suppress(RuntimeError):  # the loop has been closed, so that nobody waits any more
        result.get_loop().call_soon_threadsafe(report)


def _read_addresses(entries: Sequence[Any]) -> Sequence[str]:
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))
