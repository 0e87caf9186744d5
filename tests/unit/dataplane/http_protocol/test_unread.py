"""What waits for a client that does not read: who is called when it has read, or when nobody can tell any more."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dataplane.http_protocol import CONNECTION, call_when_read, find_connection
from gateway.http.guard import cut_off_client
from tests.unit.dataplane.http_protocol.test_replies import OLD, Connection
from tests.unit.dataplane.protocol_client import ASKED, HEADERS


async def reply_whole(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


ENDS: dict[str, Callable[[Connection], None]] = {
    "the client reads": lambda connection: connection.protocol.resume_writing(),
    "the client leaves": lambda connection: connection.protocol.connection_lost(None),
    "a WebSocket takes the connection": lambda connection: connection.protocol.handle_websocket_upgrade(),
}


@pytest.mark.parametrize("request_bytes", [ASKED, OLD], ids=["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_request_has_been_read_when_little_waits_or_nobody_can_tell(
    end: Callable[[Connection], None], request_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await reply_whole(scope, receive, send)
        call_when_read(scope, lambda: calls.append("before"))
        connection.protocol.pause_writing()
        call_when_read(scope, lambda: calls.append("one"))
        call_when_read(scope, lambda: calls.append("two"))

    monkeypatch.setattr(HttpToolsProtocol, "handle_websocket_upgrade", lambda _: None)
    connection = Connection(app)
    await connection.ask(request_bytes)
    assert calls == ["before"]
    end(connection)
    end(connection)
    assert calls == ["before", "one", "two"]
    connection.close()


async def test_on_another_server_a_request_has_been_read_at_once() -> None:
    calls: list[str] = []
    call_when_read({}, lambda: calls.append("one"))
    assert calls == ["one"]
    assert find_connection({}) is None


@pytest.mark.parametrize("request_bytes", [ASKED, OLD], ids=["HTTP/1.1", "HTTP/1.0"])
async def test_a_client_is_cut_off_by_a_reset(request_bytes: bytes) -> None:
    """The end of the connection is the end of a body of HTTP/1.0: a closed one would look complete."""
    aborted = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (CONNECTION in scope) == (request_bytes is OLD)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        await receive()
        await cut_off_client(scope, receive)

    def abort() -> None:
        aborted.set()
        connection.protocol.connection_lost(None)

    connection = Connection(app)
    connection.transport.abort = abort  # type: ignore[method-assign]
    await connection.ask(request_bytes)
    assert aborted.is_set()
