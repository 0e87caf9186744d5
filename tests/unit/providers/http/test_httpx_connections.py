"""providers/http/httpx_connections.py: which connections are used again. That none is lost is tested by whole requests,
in tests/faults/cancelled/."""

import httpx
import pytest

from providers.http.httpx_connections import HttpxConnections
from tests.polling import wait_until
from tests.upstream import ScriptedUpstream, json_reply


def connect(max_connections: int, keepalive_s: float = 4.0) -> HttpxConnections:
    limits = httpx.Limits(max_connections=1)
    return HttpxConnections(
        lambda: httpx.AsyncHTTPTransport(limits=limits), max_connections=max_connections, keepalive_s=keepalive_s
    )


@pytest.mark.parametrize(("keepalive_s", "accepted"), [(4.0, 1), (0.0, 3)])
async def test_a_connection_is_used_again_after_a_whole_reply(keepalive_s: float, accepted: int) -> None:
    async with ScriptedUpstream() as server:
        server.script(json_reply({"text": "hello"}))
        connections = connect(1, keepalive_s)
        for _ in range(3):
            response = await connections.handle_async_request(httpx.Request("GET", server.url))
            assert await response.aread() == b'{"text":"hello"}'
        await connections.aclose()
        assert server.accepted == accepted
        await wait_until(lambda: not server.open_connections)


async def test_a_reply_that_was_not_read_ends_its_connection() -> None:
    async with ScriptedUpstream() as server:
        server.script(json_reply({}))
        connections = connect(1)
        for _ in range(2):
            response = await connections.handle_async_request(httpx.Request("GET", server.url))
            await response.aclose()
        assert server.accepted == 2
        await connections.aclose()


async def test_requests_wait_for_a_connection_until_their_deadline() -> None:
    async with ScriptedUpstream() as server:
        server.script(json_reply({}))
        connections = connect(1)
        open_reply = await connections.handle_async_request(httpx.Request("GET", server.url))
        impatient = httpx.Request("GET", server.url, extensions={"timeout": {"pool": 0.01}})
        with pytest.raises(httpx.PoolTimeout):
            await connections.handle_async_request(impatient)
        await open_reply.aread()
        assert (await connections.handle_async_request(impatient)).status_code == 200
        await connections.aclose()


async def test_a_connection_that_cannot_be_made_takes_no_place() -> None:
    def refuse() -> httpx.AsyncBaseTransport:
        raise ValueError("no such proxy")

    connections = HttpxConnections(refuse, max_connections=1, keepalive_s=4.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="no such proxy"):
            await connections.handle_async_request(httpx.Request("GET", "http://127.0.0.1:1"))
