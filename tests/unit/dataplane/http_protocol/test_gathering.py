"""Each delta is sent at once, unless the configuration gathers packets."""

import asyncio
import os
import socket
from collections.abc import Callable

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from dataplane.http_protocol import HttpProtocol, NagleHttpProtocol
from gateway.config import settings as settings_of
from gateway.process.server import make_server

LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


async def no_app(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError("nothing was asked")


async def sends_at_once(kind: type[HttpProtocol]) -> bool:
    """Whether a connection to a server of this kind has Nagle's algorithm off."""
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(no_app, http=kind, lifespan="off", log_config=None)
    config.load()
    made, lost = loop.create_future(), asyncio.Event()

    class Watched(kind):  # type: ignore[valid-type, misc]
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            made.set_result(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async with await loop.create_server(lambda: Watched(config, ServerState(), {}, loop), "127.0.0.1", 0) as server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        number = (await made).get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(number)) as same:
            at_once = bool(same.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        await lost.wait()
    return at_once


@pytest.mark.parametrize("new_loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize(("kind", "at_once"), [(HttpProtocol, True), (NagleHttpProtocol, False)])
def test_a_connection_gathers_where_its_server_does(
    kind: type[HttpProtocol], at_once: bool, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(sends_at_once(kind)) is at_once


@pytest.mark.parametrize(
    ("value", "kind"),
    [({}, HttpProtocol), ({"tcp_nodelay": True}, HttpProtocol), ({"tcp_nodelay": False}, NagleHttpProtocol)],
    ids=["unsaid", "on", "off"],
)
def test_the_configuration_chooses_gathering(value: dict[str, bool], kind: type[HttpProtocol]) -> None:
    settings = settings_of.parse_settings(
        {
            "server": value,
            "store": {"url": None},
            "providers": {"s": {"type": "scripted"}},
            "models": {"*": {"provider": "s"}},
        },
        environ={},
    )
    served = make_server(settings, lambda: None).config.http
    assert isinstance(served, type)
    assert served.__base__ is kind  # with the limits of the configuration
