"""Ends a request's work when its client leaves or the server stops, wherever that work is waiting."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from starlette.types import Receive

from dataplane.http_protocol import ClientWriter
from gateway.errors import ShuttingDown


class ClientDisconnected(Exception):
    """Nobody is there to read the answer."""


class Drain:
    """The requests in flight of one server process, and whether the time to finish them is over."""

    def __init__(self) -> None:
        self.guards: set[Guard] = set()
        """Of the requests in flight; each adds itself, and takes itself out."""
        self._listeners: set[Callable[[], None]] = set()
        self.begun = False
        self.expired = False

    def __len__(self) -> int:
        return len(self.guards)

    def begin(self) -> None:
        """No new requests are wanted; those in flight may finish."""
        self.begun = True
        for begin in list(self._listeners):
            begin()

    @contextmanager
    def notify_on_begin(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `begin` when draining begins, within the block; at once if it has."""
        self._listeners.add(listener)
        try:
            if self.begun:
                listener()
            yield
        finally:
            self._listeners.discard(listener)

    def expire(self) -> None:
        """Interrupt everything still running with ShuttingDown."""
        self.expired = True
        for guard in list(self.guards):
            guard.interrupt(ShuttingDown())


class Guard:
    """`with Guard(receive, drain):` raises ClientLeft or ShuttingDown out of the block when either happens.

    Works as `asyncio.timeout` does: the block is cancelled at its next await, and the cancellation becomes the named
    exception. The request's body must have been read: from then on `receive` only reports that the client left.
    Where the server has a `client` of the request, nothing has to wait for `receive`: that takes a task.
    """

    def __init__(self, receive: Receive, drain: Drain, client: ClientWriter | None = None) -> None:
        self._receive = receive
        self._drain = drain
        self._client = client
        self._reason: Exception | None = None
        self._task: asyncio.Task[object]
        self._watch_task: asyncio.Task[None] | None = None

    def __enter__(self) -> "Guard":
        client, drain = self._client, self._drain
        task = asyncio.current_task(None if client is None else client.loop)
        assert task is not None
        self._task = task
        if client is None:
            self._watch_task = task.get_loop().create_task(self._await_disconnect())
        else:
            client.watch(self._on_disconnect)
        drain.guards.add(self)
        if drain.expired:
            self.interrupt(ShuttingDown())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drain.guards.discard(self)
        if self._client is not None:
            self._client.on_leave = None
        if self._watch_task is not None:
            self._watch_task.cancel()
        reason, self._reason = self._reason, None
        if reason is not None and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise reason from None

    def interrupt(self, reason: Exception) -> None:
        """Raise `reason` out of the block. The first one counts."""
        if self._reason is None:
            self._reason = reason
            self._task.cancel()

    async def _await_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue
        self._on_disconnect()

    def _on_disconnect(self) -> None:
        self.interrupt(ClientDisconnected())
