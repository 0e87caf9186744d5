"""HTTP/1.1 for event streams: an httpx transport on asyncio and httptools, with pooled connections.

It does the daily work of gateways for a sixth of the CPU time of httpx's own transport (docs/adr/0012): POST a body
that is in memory, and receive a long reply as it arrives. One socket read is one piece of the body, however many chunks
it held. There are no redirects, cookies, proxies, decompression or HTTP/2 here.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Self, TypeAlias

import httpx

from dataplane.coalescing import ReadCoalescer
from dataplane.connection import ServerOrigin, UpstreamConnection
from dataplane.read_waiter import ReadWaiter
from dataplane.sharing.descriptors import close_idle_connections, is_lack_of_descriptors, register_idle_pool
from dataplane.sharing.fair_turns import NO_OWNER, FairTurns, current_owner
from dataplane.source import Sink, Source

_IDLE_S = 30.0
"""The seconds that a connection may wait for its next request: fewer than servers and load balancers commonly allow."""

_DESCRIPTOR_S = 5.0
"""The most seconds that a new connection waits for a free descriptor; fewer if its deadline is earlier."""

_DESCRIPTOR_POLL_S = 0.05


class DescriptorsExhausted(httpx.PoolTimeout):
    """The process had no free file descriptor for a new connection in time, so nothing was sent."""


@dataclass(frozen=True, slots=True)
class RequestDeadlines:
    """The deadlines of a request in seconds. None means no deadline."""

    connect: float | None = None
    pool: float | None = None
    """For the wait for a free connection, if `max_connections` are open."""
    read: float | None = None
    """Between two reads of a reply, and before the first."""


_UNSAFE_IN_HEAD = re.compile(rb"[\r\n\0]")
"""Matches bytes that would end a line of a request's head. The rest could then be taken for another header or request.
"""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The common part of similar requests: their origin, and the head without `content-length` and the empty line."""

    origin: ServerOrigin
    head: bytes

    @classmethod
    def of(cls, method: str, url: httpx.URL, headers: Iterable[tuple[bytes, bytes]]) -> "RequestTarget":
        """Builds the target of requests to an absolute URL. A header `content-length` is left out.

        Raises ValueError for a line break or a null byte in the method, the path, or a header.
        """
        lines = [b"%s %s HTTP/1.1" % (method.encode(), url.raw_path)]
        lines += [b"%s: %s" % (name, value) for name, value in headers if name.lower() != b"content-length"]
        if any(map(_UNSAFE_IN_HEAD.search, lines)):
            raise ValueError("a header or the path of a request contains a line break or a null byte")
        origin = ServerOrigin(url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        return cls(origin, b"\r\n".join([*lines, b""]))


_IdleConnection: TypeAlias = tuple[UpstreamConnection, float]
"""A connection, and when it became idle, on the monotonic clock. A named tuple would cost each request more."""


class PooledTransport(httpx.AsyncBaseTransport):
    """A pool of connections. Give it to an `httpx.AsyncClient`, or call `send` for less CPU time.

    `max_connections` limits the connections in use plus the idle ones; 0 means no limit. Further requests wait for a
    free connection, up to the deadline `pool`. Owners that wait are served in rotation, and one may use three quarters
    of the connections at most: its streams may last for hours. `coalesce_ms` is the interval at which the streams of a
    busy provider are read together; 0 turns that off. It raises httpx's exceptions.
    """

    def __init__(self, *, max_connections: int = 0, coalesce_ms: float = 0) -> None:
        self._max_connections = max_connections
        self._coalescer = ReadCoalescer(coalesce_ms / 1000)
        self._open_count = 0
        self._idle: dict[ServerOrigin, deque[_IdleConnection]] = {}
        self._turns = make_turns(max_connections)
        """The connections that may be in use."""
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        timeout = request.extensions.get("timeout", {})
        deadlines = RequestDeadlines(timeout.get("connect"), timeout.get("pool"), timeout.get("read"))
        body = await self.send(
            RequestTarget.of(request.method, request.url, request.headers.raw), request.content, deadlines
        )
        return body.response(request)

    async def send(
        self,
        target: RequestTarget,
        content: bytes,
        deadlines: RequestDeadlines,
        on_new_connection: bool = False,
        own_lines: bytes = b"",
    ) -> "ReplyBody":
        """Sends a request, and returns its reply when the head has arrived. The caller must read or close the body.

        `own_lines` are the header lines that only this request has, each with its line end.

        It raises ClosedWhileIdle if it took an idle connection that the server was closing. With `on_new_connection` it
        takes no idle one.
        """
        owner, turns = NO_OWNER, self._turns
        if turns is not None and not turns.try_enter(owner := current_owner.get()):
            await enter_within(turns, owner, deadlines.pool)
        connection = None if on_new_connection else self._pop_idle(target.origin)
        if connection is None:
            try:
                connection = await self._connect(target.origin, deadlines.connect)
            except BaseException:
                if turns is not None:
                    turns.leave(owner)
                raise
        connection.owner = owner
        length = b"content-length: %d\r\n" % len(content) if content else b""
        try:
            await connection.send(b"%s%s%s\r\n%s" % (target.head, own_lines, length, content), deadlines.read)
        except BaseException:
            self.release(target.origin, connection)
            raise
        return ReplyBody(self, target.origin, connection)

    async def aclose(self) -> None:
        self.close_idle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()

    @property
    def busy(self) -> int:
        """The number of connections in use: of requests whose reply has not ended, and those being established."""
        return self._open_count - sum(map(len, self._idle.values()))

    def release(self, origin: ServerOrigin, connection: UpstreamConnection) -> None:
        """Makes a connection idle if its reply was read to the end. Closes any other."""
        if connection.end_request():
            if (connections := self._idle.get(origin)) is None:
                connections = self._idle[origin] = deque()
                register_idle_pool(self)
            connections.append((connection, monotonic()))
        else:
            self._discard(connection)
        if self._turns is not None:
            self._turns.leave(connection.owner)

    def _pop_idle(self, origin: ServerOrigin) -> UpstreamConnection | None:
        connections = self._idle.get(origin)
        if not connections:
            return None
        now = monotonic()
        while connections and (connections[0][0].closed or now - connections[0][1] > _IDLE_S):
            self._discard(connections.popleft()[0])
        # The most recently used first, so that surplus connections reach the idle limit.
        while connections:
            connection, _ = connections.pop()
            if not connection.closed:
                return connection
            self._discard(connection)
        return None

    async def _connect(self, origin: ServerOrigin, seconds: float | None) -> UpstreamConnection:
        if self._max_connections and self._open_count >= self._max_connections:
            self._discard_one_idle()  # there is one: the connection of this request is among those that may be in use
        self._open_count += 1
        try:
            return await self._dial(origin, seconds)
        except BaseException:
            self._open_count -= 1
            raise

    async def _dial(self, origin: ServerOrigin, seconds: float | None) -> UpstreamConnection:
        give_up_at = monotonic() + (_DESCRIPTOR_S if seconds is None else min(seconds, _DESCRIPTOR_S))
        while True:
            try:
                return await self._dial_once(origin, seconds)
            except httpx.ConnectError as error:
                if not is_lack_of_descriptors(error):
                    raise
                if monotonic() + _DESCRIPTOR_POLL_S > give_up_at:
                    raise DescriptorsExhausted("no file descriptor is free") from error
            close_idle_connections()
            await asyncio.sleep(_DESCRIPTOR_POLL_S)

    async def _dial_once(self, origin: ServerOrigin, seconds: float | None) -> UpstreamConnection:
        try:
            if origin.scheme == "https" and self._tls is None:
                self._tls = httpx.create_ssl_context()
            tls = self._tls if origin.scheme == "https" else None
            async with asyncio.timeout(seconds):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(
                    partial(UpstreamConnection, self._coalescer), origin.host, origin.port, ssl=tls
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout("the connection was not established in time") from error
        except (OSError, ssl.SSLError) as error:
            raise httpx.ConnectError(type(error).__name__) from error
        return connection

    def close_idle(self) -> None:
        """Closes all idle connections."""
        for connections in self._idle.values():
            while connections:
                self._discard(connections.popleft()[0])

    def _discard_one_idle(self) -> None:
        for connections in self._idle.values():
            if connections:
                self._discard(connections.popleft()[0])
                return

    def _discard(self, connection: UpstreamConnection) -> None:
        connection.close()
        self._open_count -= 1


def make_turns(max_connections: int) -> FairTurns | None:
    """Returns the turns in which owners use so many connections, of which one may use three quarters; None for 0, which
    means no limit."""
    if not max_connections:
        return None
    return FairTurns(max_connections, reserves=False, most=max_connections - max_connections // 4)


async def enter_within(turns: FairTurns, owner: str, seconds: float | None) -> None:
    """Waits for a connection of this owner. Raises PoolTimeout."""
    try:
        async with asyncio.timeout(seconds):
            await turns.enter(owner)
    except TimeoutError as error:
        raise httpx.PoolTimeout("every connection is in use") from error


class ReplyBody(httpx.AsyncByteStream, Source[bytes]):
    """The head and the body of a reply. At the end of the body its connection becomes idle.

    If the body is closed before its end, the connection is closed.
    """

    ended = False

    def __init__(self, transport: PooledTransport, origin: ServerOrigin, connection: UpstreamConnection) -> None:
        self._reply = connection.reply
        self.status = connection.reply.status
        self.headers = connection.reply.header_of
        """Values by lower-case names. Of several headers with one name, it has the last."""
        self._transport = transport
        self._origin = origin
        self._connection = connection

    def response(self, request: httpx.Request | None = None) -> httpx.Response:
        """Returns the reply as an httpx response, which reads this body. Nothing may have been taken from it."""
        return httpx.Response(self.status, headers=self._reply.headers, stream=self, request=request)

    def take(self) -> bytes:
        if self.ended:
            return b""
        piece = self._connection.take()
        if self._reply.is_complete:
            # From here on another request may use the connection.
            self.ended = True
            self._transport.release(self._origin, self._connection)
        return piece

    def take_read(self, read: bytes) -> bytes:
        return read

    def wait_for_read(self, sink: Sink | None = None) -> ReadWaiter:
        return self._connection.wait_for_read(sink)

    def __aiter__(self) -> "ReplyBody":
        return self

    async def __anext__(self) -> bytes:
        while not self.ended:
            if piece := self.take():
                return piece
            if not self.ended:
                await self.wait_for_read()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._release_connection()

    async def close(self, *, whole: bool = False) -> None:
        self._release_connection()

    def _release_connection(self) -> None:
        if not self.ended:
            self.ended = True
            self._transport.release(self._origin, self._connection)
