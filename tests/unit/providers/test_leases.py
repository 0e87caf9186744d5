"""providers/leases.py: connections are used again for the address that they lead to."""

from types import SimpleNamespace
from typing import Any

from providers.leases import LeasedBody, LeasedConnections


class EmptyBody:
    async def __aiter__(self) -> Any:
        yield b""

    async def aclose(self) -> None: ...


class FakeConnection:
    """Answers each request with an empty body."""

    def __init__(self) -> None:
        self.is_closed = False

    async def handle_async_request(self, request: Any, /) -> Any:
        return SimpleNamespace(stream=EmptyBody())

    async def aclose(self) -> None:
        self.is_closed = True


class Made:
    """Connections, and those that were made for them. `begin` sends a request, and `end` reads its reply."""

    def __init__(self, **limits: Any) -> None:
        self.made: list[FakeConnection] = []
        self.connections = LeasedConnections(self._make, LeasedBody, max_connections=0, keepalive_s=60.0, **limits)

    def _make(self) -> FakeConnection:
        self.made.append(FakeConnection())
        return self.made[-1]

    async def begin(self, address: str = "") -> Any:
        return await self.connections.send(SimpleNamespace(extensions={}), address)

    async def end(self, response: Any) -> None:
        assert [piece async for piece in response.stream] == [b""]
        await response.stream.aclose()


async def test_a_connection_is_used_again_for_its_own_address_only() -> None:
    each = Made()
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"):
        await each.end(await each.begin(address))
    assert len(each.made) == 2
    await each.connections.aclose()
    assert all(connection.is_closed for connection in each.made)


async def test_no_more_connections_are_kept_than_allowed() -> None:
    each = Made(max_idle=1)
    responses = [await each.begin() for _ in range(3)]
    for response in responses:
        await each.end(response)
    assert [connection.is_closed for connection in each.made] == [False, True, True]


async def test_a_reply_that_ends_after_the_connections_were_closed_keeps_none() -> None:
    each = Made()
    response = await each.begin()
    await each.connections.aclose()
    each.made[0].is_closed = False  # as one that was still connecting
    await each.end(response)
    assert each.made[0].is_closed
