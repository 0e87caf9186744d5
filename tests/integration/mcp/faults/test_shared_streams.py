"""Streams that belong to no single call: that of the older transport, and the one that a server opens unasked.

What is wrong with one message on them harms neither the calls of others nor later messages.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import pytest
from mcp_types import CallToolRequestParams

from gateway.tools.mcp import bounded_body
from gateway.tools.mcp.connection import call_once
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.server import McpServer
from gateway.tools.mcp.session import McpSession
from providers.egress import EgressClient
from tests.mcp_script import answer, change_stream, scripted_mcp, sse_frame, text_result
from tests.polling import wait_until
from tests.upstream import Reply, ScriptedUpstream
from tests.upstream.builders import SSE, Json
from tests.upstream.script import Exchange, Hang, Script
from translation.hosted.bounds import AnswerLimits

LIMITS: Final = AnswerLimits(max_bytes=100_000, max_values=5_000)
COMPRESSED: Final = "the answer is compressed, which was not asked for"
QUESTION: Final = sse_frame({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})


class OlderServer:
    """A server of the older transport. It answers calls when `answer_calls` is called."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()
        self.calls: dict[str, Any] = {}
        """The ids of the calls, by their arguments."""

    def send(self, *messages: Json) -> None:
        """Sends messages in one piece."""
        self._frames.put_nowait(b"".join(map(sse_frame, messages)))

    async def open_stream(self, exchange: Exchange) -> None:
        headers = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        await exchange.send(f"HTTP/1.1 200 OK\r\nconnection: close\r\n{headers}\r\n".encode())
        await exchange.send(b"event: endpoint\ndata: /v1/messages\n\n")
        while True:
            await exchange.send(await self._frames.get())

    async def take_message(self, exchange: Exchange) -> None:
        message = exchange.request.json
        method, request_id = message.get("method"), message.get("id")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "older", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            self.send({"jsonrpc": "2.0", "id": request_id, "result": result})
        elif method == "tools/call":
            self.calls[message["params"]["arguments"]["name"]] = request_id
        elif method is not None and request_id is not None:
            self.send({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": "unknown"}})
        await Reply(202, framing="length")(exchange)


@asynccontextmanager
async def connecting(server: McpServer, report_change: Callable[[], None] | None = None) -> AsyncIterator[McpSession]:
    session = McpSession(server, EgressClient(allow=["127.0.0.1"]), report_change)
    try:
        await session.wait_until_open()
        yield session
    finally:
        await session.close()


@asynccontextmanager
async def older_server(**headers: str) -> AsyncIterator[tuple[OlderServer, McpServer]]:
    server = OlderServer({**SSE, **headers})
    async with ScriptedUpstream() as upstream:
        upstream.on("/sse", server.open_stream)
        upstream.on("/messages", server.take_message)
        yield server, McpServer(label="older", url=f"{upstream.url}/sse", uses_sse=True, limits=LIMITS)


async def call(session: McpSession, name: str) -> str:
    """Returns the text of a result, or the fault of the call."""
    params = CallToolRequestParams(name="look_up", arguments={"name": name})
    try:
        result = await session.request(partial(call_once, params=params, max_pages=1), 30.0)
    except McpFault as fault:
        return f"{fault.kind}: {fault}"
    return str(getattr(result.content[0], "text", ""))


HEAVY: Final[dict[str, Json]] = {
    "max_result_values": {"content": [], "structuredContent": {"a": [1] * 10_000}},
    "max_result_mb": text_result("x" * 300_000),
}


@pytest.mark.parametrize(("words", "result"), HEAVY.items(), ids=HEAVY)
async def test_a_heavy_answer_on_the_stream_of_the_older_transport_ends_its_own_call(words: str, result: Json) -> None:
    async with older_server() as (server, address), connecting(address) as session:
        calling = {name: asyncio.create_task(call(session, name)) for name in ("before", "heavy", "after")}
        await wait_until(lambda: len(server.calls) == len(calling))
        results = {"before": text_result("one"), "heavy": result, "after": text_result("three")}
        server.send(*({"jsonrpc": "2.0", "id": server.calls[name], "result": results[name]} for name in calling))
        texts = {name: await task for name, task in calling.items()}
        assert (texts["before"], texts["after"]) == ("one", "three")
        assert texts["heavy"].startswith("result_too_large: ")
        assert words in texts["heavy"]
        assert session.is_usable


async def test_answers_before_a_message_that_ends_the_stream_reach_their_calls() -> None:
    async with older_server() as (server, address), connecting(address) as session:
        calling = [asyncio.create_task(call(session, name)) for name in ("one", "two")]
        await wait_until(lambda: len(server.calls) == len(calling))
        server.send(
            {"jsonrpc": "2.0", "id": server.calls["one"], "result": text_result("found")},
            {"jsonrpc": "2.0", "result": {"id": server.calls["two"], "a": [1] * 10_000}},
        )
        assert await calling[0] == "found"
        assert (await calling[1]).startswith("connection_closed: ")
        assert not session.is_usable


async def test_a_compressed_stream_of_the_older_transport_is_refused() -> None:
    async with older_server(**{"content-encoding": "gzip"}) as (_, address):
        with pytest.raises(McpFault, match=COMPRESSED):
            async with connecting(address):
                pass


async def test_a_compressed_stream_that_a_server_opens_unasked_is_refused_and_calls_go_on() -> None:
    get = Reply(headers={**SSE, "content-encoding": "gzip"}, body=[b"\x1f\x8b", Hang()])
    async with (
        scripted_mcp(answer(text_result("found")), era="legacy", get=get) as server,
        connecting(McpServer(label="lookup", url=server.url)) as session,
    ):
        await wait_until(lambda: bool(_list_streams(server)))
        assert await call(session, "one") == "found"


async def test_bursts_on_a_stream_that_a_server_opens_unasked_do_not_end_it_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_body, "MINUTE_S", 1.0)
    burst = Reply(headers=SSE, body=[b"retry: 100\n\n", QUESTION * 100, Hang()])
    streams: list[Script] = [burst, burst, burst, change_stream]
    reports: list[int] = []

    async def open_next(exchange: Exchange) -> None:
        await streams.pop(0)(exchange)

    async with scripted_mcp(answer(text_result("found")), era="legacy", get=open_next) as server:
        address = McpServer(label="lookup", url=server.url)
        async with connecting(address, lambda: reports.append(len(streams))) as session:
            await wait_until(lambda: len(reports) == 4)
            assert await call(session, "one") == "found"
    # Each stream behind a burst counts as a change, because none could be reported before it. The last one is reported.
    assert reports == [2, 1, 0, 0]
    assert len(_list_streams(server)) == 4


def _list_streams(server: Any) -> Sequence[Any]:
    return [request for request in server.upstream.requests if request.method == "GET"]
