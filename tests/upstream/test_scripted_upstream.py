"""The scripted upstream sends exactly its script, which all fault tests rely on."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.upstream import (
    Close,
    Drip,
    Exchange,
    Hang,
    Pause,
    Raw,
    Repeat,
    Reply,
    Reset,
    Script,
    ScriptedUpstream,
    chat_text,
    closed_port,
    replay,
    reset,
    responses_text,
    silence,
)

ASK = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"
STREAMED = b'{"stream":true}'
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


@asynccontextmanager
async def ask(upstream: ScriptedUpstream, *bodies: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """Sends requests on one connection, all at once, and closes it when the block ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    for body in bodies or (b"{}",):
        writer.write(ASK % (len(body), body))
    try:
        yield reader
    finally:
        writer.close()
        with suppress(ConnectionError):  # a reset by the script is reported here too
            await writer.wait_closed()


CASES: dict[str, tuple[Script, bytes]] = {
    "chunks are framed one by one": (Reply(body=[b"ab", b"c"]), CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"),
    "a length is sent": (Reply(body=b"abc", framing="length"), HEAD + b"content-length: 3\r\n\r\nabc"),
    "a length may lie": (
        Reply(body=[b"abc", Close()], framing="length", content_length=9),
        HEAD + b"content-length: 9\r\n\r\nabc",
    ),
    "no framing ends with the connection": (
        Reply(body=b"abc", framing="close"),
        HEAD + b"connection: close\r\n\r\nabc",
    ),
    "a clean end without the last chunk": (Reply(body=[b"abc", Close()]), CHUNKED + b"3\r\nabc\r\n"),
    "bytes outside the framing": (Reply(body=[Raw(b"zz\r\n"), Close()]), CHUNKED + b"zz\r\n"),
    "one byte at a time": (Reply(body=[Drip(b"ab"), Close()]), CHUNKED + b"1\r\na\r\n1\r\nb\r\n"),
    "the same again": (Reply(body=[Repeat(b"ab", 3)], framing="length"), HEAD + b"content-length: 6\r\n\r\nababab"),
    "an unregistered status": (
        Reply(529, framing="length"),
        b"HTTP/1.1 529 Unassigned\r\ncontent-length: 0\r\n\r\n",
    ),
}


@pytest.mark.parametrize(("script", "expected"), CASES.values(), ids=CASES)
async def test_a_reply_is_sent_to_the_byte(script: Script, expected: bytes) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        async with ask(upstream) as reader:
            assert await reader.readexactly(len(expected)) == expected


@pytest.mark.parametrize("script", [Reply(body=[b"abc", Reset()]), reset], ids=["in the body", "before the headers"])
async def test_a_reset_reaches_the_client_as_one(script: Script) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        async with ask(upstream) as reader:
            with pytest.raises(ConnectionResetError):
                await reader.read()


@pytest.mark.parametrize("script", [silence, Reply(body=[b"abc", Hang()])], ids=["before the headers", "in the body"])
async def test_the_time_a_silent_connection_ends_is_recorded(script: Script) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        async with ask(upstream):
            request = await upstream.received(1)
            assert not request.closed.done()
            left_at = time.monotonic()
        assert await request.closed >= left_at
        assert upstream.open_connections == 0


async def test_a_pause_lasts_until_the_test_ends_it() -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream() as upstream:
        upstream.script(Reply(body=[b"a", Pause(go_on), b"b"]))
        async with ask(upstream) as reader:
            assert await reader.readexactly(len(CHUNKED) + 6) == CHUNKED + b"1\r\na\r\n"
            go_on.set()
            assert await reader.readexactly(6) == b"1\r\nb\r\n"


async def test_requests_on_one_connection_are_recorded_and_answered_in_turn() -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", Reply(body=b"1", framing="length"), Reply(body=b"2", framing="length"))
        async with ask(upstream, b'{"n":1}', b'{"n":2}') as reader:
            answers = [(await reader.readuntil(b"\r\n\r\n"), await reader.readexactly(1))[1] for _ in range(2)]
        assert answers == [b"1", b"2"]
        assert [request.json for request in upstream.requests] == [{"n": 1}, {"n": 2}]
        assert upstream.accepted == 1


async def test_a_chunked_request_is_read_whole() -> None:
    chunked = b'POST /v1/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"n"\r\n3\r\n:2}\r\n0\r\n\r\n'
    async with ScriptedUpstream() as upstream:
        _, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
        writer.write(chunked)
        assert (await upstream.received(1)).json == {"n": 2}
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("script", [chat_text("he", "llo"), responses_text("he", "llo")], ids=["chat", "responses"])
@pytest.mark.parametrize(("body", "kind"), [(b"{}", b"application/json"), (STREAMED, b"text/event-stream")])
async def test_a_reply_has_the_form_that_the_request_asks_for(script: Script, body: bytes, kind: bytes) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(script)
        async with ask(upstream, body) as reader:
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"content-type: " + kind in head


async def test_a_recording_is_replayed_to_the_byte(tmp_path: Path) -> None:
    recording = tmp_path / "answer.sse"
    recording.write_bytes(b"data: 1\r\n\r\ndata: 2\n\n")
    async with ScriptedUpstream() as upstream:
        upstream.script(replay(recording))
        async with ask(upstream) as reader:
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readuntil(b"0\r\n\r\n") == b"14\r\ndata: 1\r\n\r\ndata: 2\n\n\r\n0\r\n\r\n"


async def test_a_mistake_in_a_script_is_raised_where_the_upstream_ends() -> None:
    async def broken(exchange: Exchange) -> None:
        raise LookupError("a mistake")

    with pytest.RaisesGroup(LookupError):
        async with ScriptedUpstream() as upstream:
            upstream.script(broken)
            async with ask(upstream) as reader:
                await reader.read()


async def test_nothing_listens_on_a_closed_port() -> None:
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", closed_port())
