"""The pooled transport against a scripted server."""

import asyncio

import httpx
import pytest

from dataplane.coalescing import ReadCoalescer
from dataplane.connection import ClosedWhileIdle, UpstreamConnection
from dataplane.sharing.fair_turns import current_owner
from dataplane.transport import PooledTransport, RequestTarget
from providers.config import ProviderConfig
from providers.errors import UpstreamOverloaded
from providers.http import upstream as upstream_module
from providers.http.upstream import Upstream
from tests.polling import PROMPT_S
from tests.unit.dataplane.transport_client import LIMITS, body_of, post, reply, talking
from tests.upstream.builders import json_reply
from tests.upstream.script import (
    Close,
    Exchange,
    Hang,
    Pause,
    Raw,
    Repeat,
    Reply,
    Reset,
    Script,
    silence,
)
from tests.upstream.server import ScriptedUpstream, closed_port


class FakeTransport(asyncio.Transport):
    def write(self, data: object) -> None:
        pass


@pytest.mark.parametrize(
    ("method", "header"),
    [
        ("POST", (b"x-a", b"1\r\nx-b: 2")),
        ("POST", (b"x-a", b"1\n")),
        ("POST", (b"x-a", b"1\r")),
        ("POST", (b"x-a", b"\0")),
        ("POST", (b"x-a: 1\r\nx-b", b"2")),
        ("GET / HTTP/1.1\r\nx:", (b"x-a", b"1")),
    ],
)
def test_no_text_ends_a_line_of_a_request_head(method: str, header: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="line break or a null byte"):
        RequestTarget.of(method, httpx.URL("http://h/x"), [header])


def test_the_head_of_a_request_has_its_lines() -> None:
    target = RequestTarget.of("POST", httpx.URL("http://h/x?y"), [(b"host", b"h"), (b"Content-Length", b"3")])
    assert target.head == b"POST /x?y HTTP/1.1\r\nhost: h\r\n"


@pytest.mark.parametrize(
    "script",
    [
        reply(b"hel", b"lo"),
        reply(b"hel", b"lo", framing="length"),
        reply(b"hel", b"lo", framing="close"),
        reply(Raw(b"5;ext=1\r\nhel"), Raw(b"lo\r\n")),
    ],
    ids=["chunked", "with a length", "until the connection closes", "with a chunk extension"],
)
async def test_a_body_is_whole_however_it_is_framed(script: Script) -> None:
    async with talking(script) as (transport, upstream):
        response = await transport.handle_async_request(post(upstream))
        assert (response.status_code, await body_of(response)) == (200, b"hello")
        request = await upstream.received(1)
        assert (request.method, request.content) == ("POST", b'{"a":1}')


async def test_a_connection_is_used_again_once_its_reply_is_read() -> None:
    async with talking(reply(b"one"), reply(b"two")) as (transport, upstream):
        for expected in (b"one", b"two"):
            assert await body_of(await transport.handle_async_request(post(upstream))) == expected
        assert upstream.open_connections == 1


async def test_closing_a_reply_in_the_middle_closes_the_connection() -> None:
    async with talking(reply(b"one", Hang())) as (transport, upstream):
        response = await transport.handle_async_request(post(upstream))
        async for piece in response.aiter_raw():
            assert piece == b"one"
            break
        await response.aclose()
        request = await upstream.received(1)
        async with asyncio.timeout(PROMPT_S):
            await request.closed


async def test_a_cancellation_before_the_reply_closes_the_connection() -> None:
    async with talking(silence) as (transport, upstream):
        asking = asyncio.ensure_future(transport.handle_async_request(post(upstream)))
        request = await upstream.received(1)
        asking.cancel()
        async with asyncio.timeout(PROMPT_S):
            await request.closed


BROKEN: dict[str, tuple[Script, type[httpx.TransportError]]] = {
    "a reset in the body": (reply(b"one", Reset()), httpx.ReadError),
    "an end before the length": (reply(b"one", framing="length", content_length=10), httpx.ReadError),
    "an end without the last chunk": (reply(b"one", Close()), httpx.ReadError),
    "a chunk size that is none": (reply(b"one", Raw(b"zz\r\n")), httpx.RemoteProtocolError),
}


@pytest.mark.parametrize(("script", "failure"), BROKEN.values(), ids=BROKEN)
async def test_a_truncated_body_is_an_error_after_the_received_bytes(
    script: Script, failure: type[httpx.TransportError]
) -> None:
    async def one_then_close(exchange: Exchange) -> None:
        await script(exchange)
        exchange.close()

    async with talking(one_then_close) as (transport, upstream):
        response = await transport.handle_async_request(post(upstream))
        with pytest.raises(failure):
            await body_of(response)


async def test_an_end_received_before_the_data_was_read_reaches_the_next_reader() -> None:
    connection = UpstreamConnection(ReadCoalescer(0))
    connection.connection_made(FakeTransport())
    came = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n"
    asyncio.get_running_loop().call_soon(connection.data_received, came)
    await connection.send(b"", None)
    connection.connection_lost(None)
    assert connection.take() == b"one"
    async with asyncio.timeout(60):
        await connection.wait_for_read()
    with pytest.raises(httpx.ReadError):
        connection.take()


async def test_silence_in_the_body_is_a_read_timeout() -> None:
    async with talking(reply(b"one", Hang())) as (transport, upstream):
        response = await transport.handle_async_request(post(upstream, read=0.05))
        with pytest.raises(httpx.ReadTimeout):
            await body_of(response)


async def test_an_address_without_a_server_is_a_connect_error() -> None:
    async with PooledTransport() as transport:
        request = httpx.Request(
            "POST", f"http://127.0.0.1:{closed_port()}/x", content=b"", extensions={"timeout": LIMITS}
        )
        with pytest.raises(httpx.ConnectError):
            await transport.handle_async_request(request)


async def test_a_pooled_connection_that_the_server_closed_fails_no_request() -> None:
    async def answer_and_close(exchange: Exchange) -> None:
        await reply(b'{"n":1}', framing="length")(exchange)
        exchange.close()

    async with ScriptedUpstream() as server:
        server.on("/models", answer_and_close, json_reply({"n": 2}))
        upstream = Upstream("up", ProviderConfig(type="vllm", base_url=server.url), server.url)
        assert [await upstream.get_json("/models") for _ in range(2)] == [{"n": 1}, {"n": 2}]
        await upstream.aclose()


async def close_without_reply(exchange: Exchange) -> None:
    exchange.close()


async def test_a_reused_connection_that_closes_before_its_reply_is_reported_as_such() -> None:
    async with talking(reply(b"one"), close_without_reply, close_without_reply) as (transport, upstream):
        assert await body_of(await transport.handle_async_request(post(upstream))) == b"one"
        with pytest.raises(ClosedWhileIdle):
            await transport.handle_async_request(post(upstream))
        with pytest.raises(httpx.ReadError) as fresh:
            await transport.handle_async_request(post(upstream))
        assert not isinstance(fresh.value, ClosedWhileIdle), "a new connection was not idle"


async def test_a_reply_that_had_begun_is_not_reported_as_an_idle_connection() -> None:
    async def break_off_in_head(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200")
        exchange.close()

    async with talking(reply(b"one"), break_off_in_head) as (transport, upstream):
        assert await body_of(await transport.handle_async_request(post(upstream))) == b"one"
        with pytest.raises(httpx.ReadError) as broken:
            await transport.handle_async_request(post(upstream))
        assert not isinstance(broken.value, ClosedWhileIdle)


async def test_a_request_on_a_closing_connection_is_retried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "_RETRY_DELAY_S", 600.0)
    first_pair = asyncio.Barrier(2)

    async def answer_together(exchange: Exchange) -> None:
        await first_pair.wait()
        await json_reply({"n": 1})(exchange)

    async with ScriptedUpstream() as server:
        # Two connections are idle. The second try must take neither, because a server closes its idle ones together.
        server.on("/models", answer_together, answer_together, close_without_reply, json_reply({"n": 2}))
        upstream = Upstream("up", ProviderConfig(type="vllm", base_url=server.url, retries=1), server.url)
        async with asyncio.timeout(60):
            await asyncio.gather(upstream.get_json("/models"), upstream.get_json("/models"))
            assert await upstream.get_json("/models") == {"n": 2}
        assert server.accepted == 3
        await upstream.aclose()


async def test_requests_over_the_limit_wait_for_a_connection() -> None:
    go_on = asyncio.Event()
    async with talking(reply(b"one", Pause(go_on)), reply(b"two"), max_connections=1) as (transport, upstream):
        first = await transport.handle_async_request(post(upstream))
        with pytest.raises(httpx.PoolTimeout):
            await transport.handle_async_request(post(upstream, pool=0.05))
        async with asyncio.TaskGroup() as group:
            second = group.create_task(transport.handle_async_request(post(upstream)))
            go_on.set()
            assert await body_of(first) == b"one"
        assert await body_of(second.result()) == b"two"


async def test_one_owner_leaves_a_quarter_of_the_connections_to_others() -> None:
    go_on = asyncio.Event()

    async def post_for(owner: str, **limits: float) -> httpx.Response:
        current_owner.set(owner)
        return await transport.handle_async_request(post(upstream, **limits))

    async def begin(owner: str, **limits: float) -> httpx.Response:
        return await asyncio.create_task(post_for(owner, **limits))

    async with talking(reply(b"one", Pause(go_on)), max_connections=4) as (transport, upstream):
        begun = [await begin("ann") for _ in range(3)]
        with pytest.raises(httpx.PoolTimeout):
            await begin("ann", pool=0.05)
        waiting = asyncio.create_task(begin("ann"))
        begun.append(await begin("bob"))
        with pytest.raises(httpx.PoolTimeout):
            await begin("cid", pool=0.05)
        turns = [asyncio.create_task(begin(owner)) for owner in ("ann", "cid")]
        go_on.set()
        async with asyncio.timeout(60):
            for response in begun:
                assert await body_of(response) == b"one"
            for response in await asyncio.gather(waiting, *turns):
                assert await body_of(response) == b"one"


async def test_without_keys_a_client_may_use_all_connections() -> None:
    go_on = asyncio.Event()
    async with talking(reply(b"one", Pause(go_on)), max_connections=4) as (transport, upstream):
        begun = [await transport.handle_async_request(post(upstream)) for _ in range(4)]
        go_on.set()
        assert [await body_of(response) for response in begun] == [b"one"] * 4


async def test_a_request_without_a_free_connection_is_told_to_retry() -> None:
    async with ScriptedUpstream() as server:
        server.script(silence)
        config = ProviderConfig(type="vllm", base_url=server.url, max_connections=1, connect_s=0.5)
        upstream = Upstream("up", config, server.url)
        first = asyncio.ensure_future(upstream.post("/x", {}, stream=True))
        await server.received(1)
        with pytest.raises(UpstreamOverloaded, match="in use") as caught:
            await upstream.post("/x", {}, stream=True)
        assert caught.value.headers == {"retry-after": "1"}
        first.cancel()
        await upstream.aclose()


async def test_a_slow_reader_slows_the_upstream_down() -> None:
    size = 64 * 1024 * 1024
    sent = 0

    async def pour(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 65536):
            await exchange.send(bytes(65536))
            sent += 65536

    async with talking(pour) as (transport, upstream):
        response = await transport.handle_async_request(post(upstream))
        # Turns of the loop: four times what the server needs if nothing held it back.
        for _ in range(4 * size // 65536):
            await asyncio.sleep(0)
        assert sent < size // 2
        assert len(await body_of(response)) == size


async def test_bytes_after_the_end_of_a_reply_are_never_taken_for_the_next_reply() -> None:
    async with talking(
        reply(b"one", Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"), framing="length", content_length=3),
        reply(b"two"),
    ) as (transport, upstream):
        assert await body_of(await transport.handle_async_request(post(upstream))) == b"one"
        assert await body_of(await transport.handle_async_request(post(upstream))) == b"two"


async def test_an_endless_head_is_refused() -> None:
    async def head(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\n")
        await Reply(body=[Repeat(b"x-a: " + b"y" * 1000 + b"\r\n", 1000)], framing="length")(exchange)

    async with talking(head) as (transport, upstream):
        with pytest.raises(httpx.RemoteProtocolError):
            await transport.handle_async_request(post(upstream))


async def test_an_informational_reply_is_not_the_answer() -> None:
    async def early_hints(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
        await reply(b"one")(exchange)

    async with talking(early_hints) as (transport, upstream):
        response = await transport.handle_async_request(post(upstream))
        assert (response.status_code, await body_of(response)) == (200, b"one")
        assert "link" not in response.headers
