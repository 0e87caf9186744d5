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


async def test_a_connection_is_used_again_for_its_own_address_only() -> None:
    made: list[FakeConnection] = []

    def make_connection() -> FakeConnection:
        made.append(FakeConnection())
        return made[-1]

    connections = LeasedConnections(make_connection, LeasedBody, max_connections=0, keepalive_s=60.0)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"):
        response = await connections.send(SimpleNamespace(extensions={}), address)
        assert [piece async for piece in response.stream] == [b""]
        await response.stream.aclose()
    assert len(made) == 2
    await connections.aclose()
    assert all(connection.is_closed for connection in made)
