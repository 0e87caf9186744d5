"""Cancels a request's work when its client disconnects or the server stops, wherever that work is waiting."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Final

from starlette.types import Receive, Scope

from dataplane.http_protocol import CLIENT, ClientWriter, find_connection
from gateway.errors import ShuttingDown

CLIENT_LEFT: Final = 499
"""The status, for the log, of a request whose client left before a reply was begun. The number is that of nginx."""


class ClientDisconnected(Exception):
    """The client closed its connection, so the reply has no reader."""


class DrainState:
    """The shutdown state of one server process: the requests in flight, and whether the time to finish them is over.

    A server that stops may serve new requests for a while (`stopping`), and then finishes those in flight (`begun`).
    """

    def __init__(self) -> None:
        self.guards: set[RequestGuard] = set()
        """The guards of the requests in flight. Each guard adds and removes itself."""
        self._listeners: set[Callable[[], None]] = set()
        self.stopping = False
        """Whether the server has been told to stop. Set with `begun`, or before it."""
        self.begun = False
        self.expired = False
        self.expiry = asyncio.Event()
        """Set together with `expired`."""

    def __len__(self) -> int:
        return len(self.guards)

    def begin(self) -> None:
        """Begins to drain: new requests are unwanted, those in flight may finish. Calls every listener."""
        self.stopping = self.begun = True
        for listener in list(self._listeners):
            listener()

    @contextmanager
    def notify_on_begin(self, listener: Callable[[], None]) -> Iterator[None]:
        """Calls `listener` when draining begins during the block, or at once if it has begun."""
        self._listeners.add(listener)
        try:
            if self.begun:
                listener()
            yield
        finally:
            self._listeners.discard(listener)

    def expire(self) -> None:
        """Interrupts every request still in flight with ShuttingDown, and every later one as it starts."""
        self.expired = True
        self.expiry.set()
        for guard in list(self.guards):
            guard.interrupt(ShuttingDown())


class RequestGuard:
    """Context manager that raises ClientDisconnected or ShuttingDown out of its block when either happens.

    It works like `asyncio.timeout`: the block is cancelled at its next await, and the cancellation becomes the named
    exception. The request's body must have been read: after that, `receive` only reports that the client disconnected.
    With a `client`, the server calls the guard directly, which saves a task that waits for `receive`.
    """

    def __init__(self, receive: Receive, drain: DrainState, client: ClientWriter | None = None) -> None:
        self._receive = receive
        self._drain = drain
        self._client = client
        self._reason: Exception | None = None
        self._watch_task: asyncio.Task[None] | None = None
        self._task: asyncio.Task[object]

    def __enter__(self) -> "RequestGuard":
        client, drain = self._client, self._drain
        task = asyncio.current_task(None if client is None else client.loop)
        if task is None:
            raise RuntimeError("a request can be guarded only in a task")
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
        if (reason := self._reason) is not None:
            self._reason = None
            if self._task.uncancel() == 0 and kind is asyncio.CancelledError:
                raise reason from None

    def interrupt(self, reason: Exception) -> None:
        """Raises `reason` out of the block. Only the first call has an effect."""
        if self._reason is None:
            self._reason = reason
            self._task.cancel()

    async def _await_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue
        self._on_disconnect()

    def _on_disconnect(self) -> None:
        self.interrupt(ClientDisconnected())


def guard_client(scope: Scope, receive: Receive, drain: DrainState) -> AbstractContextManager[object]:
    """Returns a guard of this request that does not read its body. On other servers it does nothing."""
    client: ClientWriter | None = scope.get(CLIENT)
    return nullcontext() if client is None else RequestGuard(receive, drain, client)


async def cut_off_client(scope: Scope, receive: Receive) -> None:
    """Closes the client's connection before the end of its reply."""
    if (connection := find_connection(scope)) is not None:
        connection.transport.abort()
        while (await receive())["type"] != "http.disconnect":
            continue
