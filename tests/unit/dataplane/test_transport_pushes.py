"""Reads that the pooled transport pushes to a sink, and its silence meanwhile."""

import asyncio

import httpx
import pytest

from dataplane.transport import ReplyBody
from tests.polling import PROMPT_S
from tests.unit.dataplane.sinks import FakeSink
from tests.unit.dataplane.transport_client import body_of, post, reply, talking
from tests.upstream.script import (
    Drip,
    Hang,
    Pause,
    Raw,
    Step,
)


async def test_reads_are_pushed_to_the_waiting_sink_until_it_has_enough() -> None:
    go_on = [asyncio.Event() for _ in range(3)]
    steps: list[Step] = [b"zero", Pause(go_on[0]), b"one", Pause(go_on[1]), b"two", Pause(go_on[2]), b"three"]
    async with talking(reply(*steps)) as (transport, upstream):
        body = (await transport.handle_async_request(post(upstream))).stream
        assert isinstance(body, ReplyBody)
        pushed: list[bytes] = []

        def push(read: bytes) -> bool:
            pushed.append(read)
            if len(pushed) == 2:
                return False
            go_on[len(pushed)].set()
            return True

        while not body.take():
            await body.wait_for_read()
        go_on[0].set()
        async with asyncio.timeout(60):
            await body.wait_for_read(FakeSink(push))
        assert pushed == [b"one", b"two"]
        assert body.take() == b""
        go_on[2].set()
        await body.wait_for_read()
        assert body.take() == b"three"
        await body.close()


async def test_nothing_is_pushed_after_its_wait_was_cancelled() -> None:
    more = asyncio.Event()
    async with talking(reply(b"one", Pause(more), b"two")) as (transport, upstream):
        body = (await transport.handle_async_request(post(upstream))).stream
        assert isinstance(body, ReplyBody)
        while not body.take():
            await body.wait_for_read()
        pushed: list[bytes] = []

        def push(read: bytes) -> bool:
            pushed.append(read)
            return True

        async def wait() -> None:
            await body.wait_for_read(FakeSink(push))

        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        more.set()
        await body.wait_for_read()
        assert (body.take(), pushed) == (b"two", [])
        await body.close()


async def test_silence_after_a_push_is_a_read_timeout() -> None:
    more = asyncio.Event()
    async with talking(reply(b"one", Pause(more), b"two", Hang())) as (transport, upstream):
        body = (await transport.handle_async_request(post(upstream, read=2.0))).stream
        assert isinstance(body, ReplyBody)
        while not body.take():
            await body.wait_for_read()
        more.set()
        pushed: list[bytes] = []

        def push(read: bytes) -> bool:
            pushed.append(read)
            return bool(read)

        async with asyncio.timeout(60):
            await body.wait_for_read(FakeSink(push))
        assert pushed == [b"two"]
        with pytest.raises(httpx.ReadTimeout):
            body.take()
        await body.close()


async def test_forwarded_reads_end_a_silence() -> None:
    async with talking(reply(b"one", Drip(b"abcdefgh", per=0.5), Hang())) as (transport, upstream):
        body = (await transport.handle_async_request(post(upstream, read=3.0))).stream
        assert isinstance(body, ReplyBody)
        while not body.take():
            await body.wait_for_read()
        passed: list[bytes] = []

        def forward_chunks(read: bytes) -> int:
            passed.append(read)
            return len(read)

        async with asyncio.timeout(60):
            await body.wait_for_read(FakeSink(bool, forward_chunks))
        assert b"".join(passed)[-6:] == b"1\r\nh\r\n"
        with pytest.raises(httpx.ReadTimeout):
            body.take()
        await body.close()


async def test_chunks_of_one_read_are_pushed_as_one() -> None:
    more = asyncio.Event()
    async with talking(reply(b"one", Pause(more), Raw(b"3\r\ntwo\r\n3\r\n-th\r\n"), Hang())) as (transport, upstream):
        body = (await transport.handle_async_request(post(upstream))).stream
        assert isinstance(body, ReplyBody)
        while not body.take():
            await body.wait_for_read()
        more.set()
        offered: list[bytes] = []

        def refuse(read: bytes) -> bool:
            offered.append(read)
            return False

        async with asyncio.timeout(60):
            await body.wait_for_read(FakeSink(refuse))
        assert (offered, body.take()) == ([b"two-th"], b"")
        await body.close()


async def test_the_last_piece_is_not_offered_as_one_that_more_may_follow() -> None:
    more = asyncio.Event()
    async with talking(reply(b"one", Pause(more), Raw(b"3\r\ntwo\r\n0\r\n\r\n"))) as (transport, upstream):
        body = (await transport.handle_async_request(post(upstream))).stream
        assert isinstance(body, ReplyBody)
        while not body.take():
            await body.wait_for_read()
        more.set()

        def push(read: bytes) -> bool:
            return bool(read)

        async with asyncio.timeout(60):
            await body.wait_for_read(FakeSink(push))
        assert (body.take(), body.ended) == (b"two", True)


@pytest.mark.parametrize(("first", "second"), [(60.0, 0.05), (2.0, 2.5)], ids=["a shorter one", "a longer one"])
async def test_a_reused_connection_has_the_timeouts_of_the_new_request(first: float, second: float) -> None:
    async with talking(reply(b"one"), reply(b"two", Hang())) as (transport, upstream):
        assert await body_of(await transport.handle_async_request(post(upstream, read=first))) == b"one"
        async with asyncio.timeout(second + PROMPT_S):
            with pytest.raises(httpx.ReadTimeout):
                await body_of(await transport.handle_async_request(post(upstream, read=second)))
        assert upstream.accepted == 1
