"""HTTP/1.1 for event streams: an httpx transport on asyncio and httptools, with pooled connections.

It does what gateways do all day for a sixth of the CPU of httpx's own transport (docs/adr/0012): POST a body that is in
memory, read a long reply as it comes. One socket read is one piece of the body, however many chunks it held. There are
no redirects, cookies, proxies, decompression or HTTP/2 here.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from types import TracebackType
from typing import NamedTuple, Self

import httpx

from dataplane.coalescing import ReadCoalescer
from dataplane.connection import Connection, Origin
from dataplane.read_waiter import ReadWaiter
from dataplane.source import Sink, Source

_IDLE_S = 30.0
"""How long a connection may wait for its next request; below what servers and load balancers commonly allow."""


class Limits(NamedTuple):
    """Seconds; None: as long as it takes."""

    connect: float | None = None
    pool: float | None = None
    read: float | None = None
    """Between two pieces of a reply."""


@dataclass(frozen=True, slots=True)
class Target:
    """What requests of one kind have in common: where they go, and their head but for the length of their content."""

    origin: Origin
    head: bytes

    @classmethod
    def of(cls, method: str, url: httpx.URL, headers: Iterable[tuple[bytes, bytes]]) -> "Target":
        lines = [b"%s %s HTTP/1.1\r\n" % (method.encode(), url.raw_path)]
        lines += [b"%s: %s\r\n" % (name, value) for name, value in headers if name.lower() != b"content-length"]
        origin = Origin(url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        return cls(origin, b"".join(lines))


class PooledTransport(httpx.AsyncBaseTransport):
    """Give it to an `httpx.AsyncClient`, or for less CPU call `ask`.

    `max_connections` (0: no limit) counts those in use and those kept; requests over it wait in line for the pool
    limit. `coalesce_ms`: how far apart streams are read, where they bring much. Raises httpx's exceptions.
    """

    def __init__(self, *, max_connections: int = 0, coalesce_ms: float = 0) -> None:
        self._max = max_connections
        self._coalescing = ReadCoalescer(coalesce_ms / 1000)
        self._open = 0
        self._idle: dict[Origin, deque[Connection]] = {}
        self._line: deque[asyncio.Future[None]] = deque()
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        timeout = request.extensions.get("timeout", {})
        limits = Limits(*(timeout.get(name) for name in Limits._fields))
        body = await self.ask(Target.of(request.method, request.url, request.headers.raw), request.content, limits)
        return body.response(request)

    async def ask(self, target: Target, content: bytes, limits: Limits) -> "Body":
        """Send a request; its reply, of which the head has come and the body is to be read and closed."""
        connection = self._take_idle(target.origin) or await self._connect(target.origin, limits)
        length = b"content-length: %d\r\n" % len(content) if content else b""
        try:
            await connection.send(b"%s%s\r\n%s" % (target.head, length, content), limits.read)
        except BaseException:
            self.give_back(target.origin, connection)
            raise
        return Body(self, target.origin, connection)

    async def aclose(self) -> None:
        for kept in self._idle.values():
            while kept:
                self._drop(kept.pop())

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
        """Requests whose reply is not over yet."""
        return self._open - sum(map(len, self._idle.values()))

    def give_back(self, origin: Origin, connection: Connection) -> None:
        """Keep a connection whose reply is read to its end; close any other."""
        if connection.rest():
            if (kept := self._idle.get(origin)) is None:
                kept = self._idle[origin] = deque()
            kept.append(connection)
            if self._line:
                self._let_next_in()
        else:
            self._drop(connection)

    def _take_idle(self, origin: Origin) -> Connection | None:
        kept = self._idle.get(origin)
        if not kept:
            return None
        now = monotonic()
        while kept and (kept[0].closed or now - kept[0].idle_since > _IDLE_S):
            self._drop(kept.popleft())
        # The latest used first, so that those not needed grow old.
        while kept:
            connection = kept.pop()
            if not connection.closed:
                return connection
            self._drop(connection)
        return None

    async def _connect(self, origin: Origin, limits: Limits) -> Connection:
        while self._max and self._open >= self._max:
            if not self._drop_one_idle():
                await self._wait_in_line(limits.pool)
                if (connection := self._take_idle(origin)) is not None:
                    return connection
        self._open += 1
        try:
            return await self._dial(origin, limits.connect)
        except BaseException:
            self._closed()
            raise

    async def _dial(self, origin: Origin, seconds: float | None) -> Connection:
        if origin.scheme == "https" and self._tls is None:
            self._tls = httpx.create_ssl_context()
        tls = self._tls if origin.scheme == "https" else None
        try:
            async with asyncio.timeout(seconds):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(
                    partial(Connection, self._coalescing), origin.host, origin.port, ssl=tls
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except (OSError, ssl.SSLError) as error:
            raise httpx.ConnectError(type(error).__name__) from error
        return connection

    async def _wait_in_line(self, seconds: float | None) -> None:
        place = asyncio.get_running_loop().create_future()
        self._line.append(place)
        try:
            async with asyncio.timeout(seconds):
                await place
        except TimeoutError as error:
            raise httpx.PoolTimeout("every connection is in use") from error
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._let_next_in()
            raise

    def _let_next_in(self) -> None:
        while self._line:
            place = self._line.popleft()
            if not place.done():
                place.set_result(None)
                return

    def _drop_one_idle(self) -> bool:
        for kept in self._idle.values():
            if kept:
                self._drop(kept.popleft())
                return True
        return False

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._closed()

    def _closed(self) -> None:
        self._open -= 1
        self._let_next_in()


class Body(httpx.AsyncByteStream, Source[bytes]):
    """A reply's body, with the head it had. Its connection goes back to the pool at the end of the body, or is closed
    before it."""

    ended = False

    def __init__(self, transport: PooledTransport, origin: Origin, connection: Connection) -> None:
        self.status = connection.status
        self.headers = connection.header_of
        """Names in lower case; of several with one name, the last."""
        self._transport = transport
        self._origin = origin
        self._connection = connection

    def response(self, request: httpx.Request | None = None) -> httpx.Response:
        """The reply as httpx has it, to be read there; before anything is taken."""
        return httpx.Response(self.status, headers=self._connection.headers, stream=self, request=request)

    def take(self) -> bytes:
        if self.ended:
            return b""
        piece = self._connection.take()
        if self._connection.whole:
            # Another request may have the connection from now on.
            self.ended = True
            self._transport.give_back(self._origin, self._connection)
        return piece

    def take_read(self, read: bytes) -> bytes:
        return read

    def wait_for_read(self, sink: Sink | None = None) -> ReadWaiter:
        return self._connection.wait_for_read(sink)

    def __aiter__(self) -> "Body":
        return self

    async def __anext__(self) -> bytes:
        while not self.ended:
            if piece := self.take():
                return piece
            if not self.ended:
                await self.wait_for_read()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._release()

    async def close(self, *, whole: bool = False) -> None:
        self._release()

    def _release(self) -> None:
        if not self.ended:
            self.ended = True
            self._transport.give_back(self._origin, self._connection)
