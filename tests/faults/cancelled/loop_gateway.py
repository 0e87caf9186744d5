"""A gateway on the event loop of the test, whose requests are struck at a chosen moment."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http.client import HTTPResponse
from io import BytesIO
from typing import Any, NamedTuple

import uvicorn
from uvicorn.lifespan.on import LifespanOn
from uvicorn.server import ServerState

from dataplane.http_protocol import HttpProtocol
from gateway.config import settings as settings_of
from gateway.http.guard import DrainState
from gateway.process.app import build_app
from gateway.service.provider_lifetimes import build_providers
from gateway.websocket.protocol import WebSocketProtocol
from tests.faults.cancelled.strikes import Strike, StrikingTasks
from tests.polling import TIMEOUT_S, wait_until
from tests.serving import be_patient

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]
"""What a client does after it has sent its request. Returns all that it has received."""


async def read_to_end(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> bytes:
    return await reader.read()


class ClientRequest(NamedTuple):
    """The bytes of a request, whose reply ends its connection, and what its client does then."""

    head_and_body: bytes
    talk: Talk = read_to_end


class HttpReply(NamedTuple):
    status: int
    body: bytes


class LoopGateway:
    """`send` sends one request on a connection of its own."""

    def __init__(self, config: dict[str, Any]) -> None:
        settings = settings_of.parse_settings(be_patient(config), environ={})
        self.drain = DrainState()
        self._config = uvicorn.Config(
            build_app(settings, self.drain, build_providers(settings, None)).asgi,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            interface="asgi3",
            ws=WebSocketProtocol,
        )
        self._config.load()
        self._state = ServerState()
        self._lifespan = LifespanOn(self._config)
        self._tasks = StrikingTasks()
        self._transport: asyncio.Transport
        """The server's side of the last connection."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["LoopGateway"]:
        asyncio.get_running_loop().set_task_factory(self._tasks)
        await self._lifespan.startup()
        assert not self._lifespan.should_exit
        try:
            yield self
        finally:
            await self._lifespan.shutdown()

    def reach_moment(self) -> None:
        """Called when a piece of a reply was sent to the gateway, and it had the time to handle it."""
        if (strike := self._tasks.strike) is not None and not strike.watched:
            strike.reach_moment()

    def drop_client(self) -> None:
        self._transport.abort()

    async def send(self, request: ClientRequest, strike: Strike | None = None) -> bytes:
        """Returns all that the client received, once no task of the server has to do with the request."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)

        def make_protocol() -> asyncio.Protocol:
            return HttpProtocol(self._config, self._state, self._lifespan.state)

        self._tasks.strike = strike
        self._transport, _ = await loop.connect_accepted_socket(make_protocol, ours)
        reader, writer = await asyncio.open_connection(sock=theirs)
        received = b""
        try:
            writer.write(request.head_and_body)
            async with asyncio.timeout(TIMEOUT_S):
                received = await request.talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client was dropped
        finally:
            writer.transport.abort()
        await wait_until(lambda: not (self._state.tasks or self._state.connections))
        self._tasks.strike = None
        # A server whose drain is over stops. This one goes on.
        self.drain.expired = False
        self.drain.expiry.clear()
        return received


class _ReceivedBytes:
    """What `http.client` needs of a socket."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, _: str) -> BytesIO:
        return BytesIO(self._received)


def parse_reply(received: bytes) -> HttpReply:
    """Returns the whole reply. Raises HTTPException if it is malformed or has no end."""
    reply = HTTPResponse(_ReceivedBytes(received))  # type: ignore[arg-type]  # it uses nothing else
    reply.begin()
    return HttpReply(reply.status, reply.read())
