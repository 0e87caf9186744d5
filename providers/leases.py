"""Connections of httpx and of its successor httpx2, of which none is lost, at whichever wait a request is cancelled.

The pools of both lose a connection whose request is cancelled between two of its steps, such as after it has connected:
the connection is then never used, closed or forgotten, and counts as one in use. So each connection here has a pool of
its own, which is closed as a whole after anything but a complete reply.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol

from dataplane.sharing.fair_turns import NO_OWNER, current_owner
from dataplane.transport import enter_within, make_turns


class Connection(Protocol):
    """A transport of httpx or httpx2 that never has more than one connection."""

    async def handle_async_request(self, request: Any, /) -> Any: ...

    async def aclose(self) -> None: ...


class ConnectionLease(NamedTuple):
    """The use of one connection by one request. `address` is where it leads."""

    connection: Connection
    owner: str
    address: str


class _IdleConnection(NamedTuple):
    connection: Connection
    address: str
    since: float


class LeasedConnections:
    """Connections for requests that take turns, by owners as those of `PooledTransport` do.

    `max_connections` limits those in use; 0 means no limit. A connection is used again, for the same address, within
    `keepalive_s` after a reply, and no more than `max_idle` are kept for that. `wrap_body` returns the body of a reply,
    which ends the lease when it is closed.
    """

    def __init__(
        self,
        make_connection: Callable[[], Connection],
        wrap_body: "Callable[[Any, ConnectionLease, LeasedConnections], LeasedBody]",
        *,
        max_connections: int,
        keepalive_s: float,
        max_idle: int | None = None,
    ) -> None:
        self._make_connection = make_connection
        self._wrap_body = wrap_body
        self._keepalive_s: Final = keepalive_s
        self._max_idle: Final = max_idle
        self._turns = make_turns(max_connections)
        self._idle: list[_IdleConnection] = []
        self._in_use: set[Connection] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def send(self, request: Any, address: str = "") -> Any:
        """Returns the response to a request. Raises httpx.PoolTimeout, and what the connections raise."""
        owner, turns = NO_OWNER, self._turns
        if turns is not None and not turns.try_enter(owner := current_owner.get()):
            await enter_within(turns, owner, request.extensions.get("timeout", {}).get("pool"))
        try:
            lease = ConnectionLease(self._pop_idle(address) or self._make_connection(), owner, address)
        except BaseException:
            if turns is not None:
                turns.leave(owner)
            raise
        self._in_use.add(lease.connection)
        try:
            response = await lease.connection.handle_async_request(request)
        except BaseException:
            self._start(self._discard(lease))
            raise
        response.stream = self._wrap_body(response.stream, lease, self)
        return response

    async def aclose(self) -> None:
        self._is_closed = True
        for connection in [*self._in_use, *(idle.connection for idle in self._idle)]:
            self._start(connection.aclose())
        self._idle.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def release(self, lease: ConnectionLease, stream: Any, *, is_whole: bool) -> None:
        """Ends the use of a connection. It is used again if the reply was read to its end.

        Closing takes several steps, which go on if the caller is cancelled.
        """
        await asyncio.shield(self._start(self._keep(lease, stream) if is_whole else self._discard(lease)))

    def _pop_idle(self, address: str) -> Connection | None:
        """Returns the connection that was used last, so that surplus ones become too old."""
        oldest = monotonic() - self._keepalive_s
        while self._idle and self._idle[0].since <= oldest:
            self._start(self._idle.pop(0).connection.aclose())
        for index in range(len(self._idle) - 1, -1, -1):
            if self._idle[index].address == address:
                return self._idle.pop(index).connection
        return None

    async def _keep(self, lease: ConnectionLease, stream: Any) -> None:
        reuses = False
        try:
            await stream.aclose()
            has_room = self._max_idle is None or len(self._idle) < self._max_idle
            reuses = bool(self._keepalive_s) and has_room and not self._is_closed
        finally:
            if reuses:
                self._idle.append(_IdleConnection(lease.connection, lease.address, monotonic()))
                self._leave(lease)
            else:
                await self._discard(lease)

    async def _discard(self, lease: ConnectionLease) -> None:
        try:
            await lease.connection.aclose()
        finally:
            self._leave(lease)

    def _leave(self, lease: ConnectionLease) -> None:
        self._in_use.discard(lease.connection)
        if self._turns is not None:
            self._turns.leave(lease.owner)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task


class LeasedBody:
    """The body of a reply. Closing it ends the use of its connection."""

    def __init__(self, stream: Any, lease: ConnectionLease, connections: LeasedConnections) -> None:
        self._stream = stream
        self._lease = lease
        self._connections = connections
        self._is_whole = False
        self._is_closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        async for piece in self._stream:
            yield piece
        self._is_whole = True

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._connections.release(self._lease, self._stream, is_whole=self._is_whole)
