"""A URL that a client wrote leads to the public internet or nowhere."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
import pytest

from gateway.config.settings import Settings
from gateway.service import provider_lifetimes as builder
from providers import egress
from providers.egress import EgressClient, FetchResult, GuardedSender, is_public
from providers.lookups import look_up_host
from tests.polling import wait_until
from tests.upstream import ScriptedUpstream, closed_port, json_reply
from translation.errors import InvalidRequest

PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: Image/PNG; x=y\r\ncontent-length: 4\r\n\r\nabcd"


class Server:
    """A server on this machine that records its requests."""

    def __init__(self, port: int, asked: list[bytes]) -> None:
        self.port = port
        self.asked = asked


@asynccontextmanager
async def serving(*replies: bytes, hold: bool = False) -> AsyncGenerator[Server, None]:
    """Serves these replies in order, the last one for ever. With `hold` the connection stays open after it."""
    left = list(replies)
    requests: list[bytes] = []
    connections: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with suppress(ConnectionError):
            requests.append(await reader.read(65536))
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()
            if hold:
                await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield Server(server.sockets[0].getsockname()[1], requests)
        if connections:
            await asyncio.wait(connections, timeout=5)


def names(**hosts: str | Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver that knows these names, dots written as underscores, and addresses."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        known = hosts.get(host.replace(".", "_"))
        if known is None:
            return await look_up_host(host, port)
        return [known] if isinstance(known, str) else known

    return resolve


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes this machine count as public, so that a server of the test can stand for one of the internet."""
    real = egress.is_public
    monkeypatch.setattr(egress, "is_public", lambda text: text == "127.0.0.1" or real(text))


async def get(
    url: str, resolve: egress.HostResolver = look_up_host, *, max_bytes: int = 100, allow: Sequence[str] = ()
):
    return await EgressClient(allow=allow, resolver=resolve).fetch(
        url, max_bytes=max_bytes, deadline_s=5, param="input[0]"
    )


async def refusal(url: str, resolve: egress.HostResolver = look_up_host, *, max_bytes: int = 100) -> str:
    with pytest.raises(InvalidRequest) as refused:
        await get(url, resolve, max_bytes=max_bytes)
    assert refused.value.param == "input[0]"
    return refused.value.message


PRIVATE = [
    *("0.0.0.0", "10.1.2.3", "100.100.100.200", "127.0.0.1", "127.8.8.8", "168.63.129.16", "169.254.169.254"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.192", "192.168.1.1", "198.18.0.1", "224.0.0.1", "239.255.255.250"),
    *("240.0.0.1", "255.255.255.255", "203.0.113.9"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::169.254.169.254"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "100::1"),
    *("not an address", ""),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_of_the_public_internet_is_known(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "93.184.215.14",
        "172.32.0.1",
        "2606:4700::1111",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
        "2002:101:101::",
    ],
)
def test_an_address_of_the_public_internet_is_known(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "0"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "169.254.169.254", "[64:ff9b::7f00:1]"),
    ],
)
async def test_loopback_is_refused_in_every_notation(host: str) -> None:
    async with serving(PAGE) as server:
        told = await refusal(f"http://{host}:{server.port}/")
        assert "public internet" in told or "cannot be resolved" in told or "not valid" in told
        assert server.asked == []


async def test_a_name_is_refused_when_one_of_its_addresses_is_private() -> None:
    resolve = names(mixed_example=["93.184.215.14", "10.0.0.1"])
    assert "public internet" in await refusal("http://mixed.example/", resolve)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ftp://example.com/a", "http:// or https://"),
        ("file:///etc/passwd", "http:// or https://"),
        ("gopher://example.com", "http:// or https://"),
        ("example.com/a.png", "http:// or https://"),
        ("http:///a", "no valid host"),
        ("http://user:secret@example.com/", "user name or password"),
        ("http://user@127.0.0.1/", "user name or password"),
        ("http://[fe80::1%25eth0]/", "no valid host"),
        ("http://[::1/", "not valid"),
        ("http://exa mple.com/", "no valid host"),
        ("http://example.com:99999/", "port"),
        ("http://example.com:0/", "port"),
        ("http://example.com/" + "a" * 9000, "longer than"),
    ],
)
async def test_other_urls_are_refused(url: str, expected: str) -> None:
    async def nobody(host: str, port: int) -> Sequence[str]:
        raise AssertionError("nothing is looked up")

    assert expected in await refusal(url, nobody)


async def test_content_of_a_public_host_is_returned_with_its_type(here: None) -> None:
    async with serving(PAGE) as server:
        found = await get(f"http://pictures.example:{server.port}/a?b=c", names(pictures_example="127.0.0.1"))
        assert found == FetchResult("image/png", b"abcd")
        head = server.asked[0].lower()
        assert head.startswith(b"get /a?b=c http/1.1\r\n")
        assert f"host: pictures.example:{server.port}\r\n".encode() in head
        assert b"accept-encoding: identity\r\n" in head


async def test_a_name_is_resolved_once_and_the_checked_address_is_used(here: None) -> None:
    looked_up: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return ["127.0.0.1"] if len(looked_up) == 1 else ["10.0.0.1"]

    async with serving(PAGE) as server:
        assert (await get(f"http://rebinding.example:{server.port}/", rebinding)).content == b"abcd"
        assert looked_up == ["rebinding.example"]


async def test_an_address_that_does_not_answer_is_followed_by_the_next(here: None) -> None:
    async with serving(PAGE) as server:
        resolve = names(two_example=["127.0.0.1", "127.0.0.1"])
        assert (await get(f"http://two.example:{server.port}/", resolve)).content == b"abcd"
    assert "cannot be reached" in await refusal(f"http://two.example:{closed_port()}/", resolve)


async def test_a_host_without_addresses_is_not_known() -> None:
    async def nobody(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    assert "cannot be resolved" in await refusal("http://nowhere.example/", nobody)


def redirect(to: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Elsewhere\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "//[::1]/", "http://inside.example/"],
)
async def test_a_redirect_is_held_to_the_same_rules(here: None, target: str) -> None:
    async with serving(redirect(target)) as server:
        resolve = names(outside_example="127.0.0.1", inside_example="192.168.0.7")
        assert "public internet" in await refusal(f"http://outside.example:{server.port}/", resolve)


async def test_a_redirect_to_another_kind_of_url_is_refused(here: None) -> None:
    async with serving(redirect("file:///etc/passwd")) as server:
        assert "http:// or https://" in await refusal(f"http://127.0.0.1:{server.port}/")


async def test_redirects_are_followed_by_name_and_path(here: None) -> None:
    async with serving(redirect("/b", 301), redirect("../c", 308), PAGE) as server:
        found = await get(f"http://outside.example:{server.port}/a", names(outside_example="127.0.0.1"))
        assert found.content == b"abcd"
        assert [head.split()[1] for head in server.asked] == [b"/a", b"/b", b"/c"]
        assert all(b"outside.example" in head for head in server.asked)


async def test_circular_redirects_end(here: None) -> None:
    async with serving(redirect("/again")) as server:
        assert "more than 5 times" in await refusal(f"http://127.0.0.1:{server.port}/")
        assert len(server.asked) == 6


async def test_large_replies_are_not_read_to_their_end(here: None) -> None:
    declared = b"HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n"
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101
    for reply in (declared, endless):
        async with serving(reply, hold=True) as server:
            assert "larger than 100 bytes" in await refusal(f"http://127.0.0.1:{server.port}/")
    async with serving(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100) as server:
        assert await get(f"http://127.0.0.1:{server.port}/") == FetchResult("", b"x" * 100)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "status 404"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "status 204"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd", "compressed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabcd", "complete reply"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "complete reply"),
        (b"", "complete reply"),
    ],
)
async def test_an_invalid_reply_is_reported(here: None, reply: bytes, expected: str) -> None:
    async with serving(reply) as server:
        assert expected in await refusal(f"http://127.0.0.1:{server.port}/")


async def test_the_deadline_holds_for_all_of_it(here: None) -> None:
    async with serving(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabcd", hold=True) as server:
        with pytest.raises(InvalidRequest, match=r"within 0\.2 s"):
            await EgressClient().fetch(f"http://127.0.0.1:{server.port}/", max_bytes=100, deadline_s=0.2)


async def test_tls_verifies_the_name_and_not_the_address(here: None) -> None:
    async with serving(b"no TLS here") as server:
        url = f"https://secret.example:{server.port}/"
        assert "cannot be reached" in await refusal(url, names(secret_example="127.0.0.1"))
        assert b"secret.example" in server.asked[0]


async def test_a_proxy_of_the_environment_is_not_used(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(PAGE) as proxy, serving(PAGE) as server:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await get(f"http://127.0.0.1:{server.port}/")
        assert (len(proxy.asked), len(server.asked)) == (0, 1)


async def test_a_host_of_the_operators_own_may_be_anywhere() -> None:
    async with serving(PAGE) as server:
        resolve = names(files_internal="127.0.0.1", other_internal="127.0.0.1")
        found = await get(f"http://Files.internal:{server.port}/", resolve, allow=["files.Internal"])
        assert found.content == b"abcd"
        assert "public internet" in await refusal(f"http://other.internal:{server.port}/", resolve)


async def test_adapters_fetch_with_the_operators_allowances(monkeypatch: pytest.MonkeyPatch) -> None:
    granted: list[EgressClient] = []
    monkeypatch.setattr(builder, "build_provider", lambda _name, _config, egress: granted.append(egress))
    written = {"allow": ["127.0.0.1"], "max_mb": 0.5, "deadline_s": 4}
    builder.build_providers(Settings.model_validate({"egress": written, "providers": {"p": {"type": "scripted"}}}))
    (given,) = granted
    assert (given.max_bytes, given.deadline_s) == (512 * 1024, 4)
    async with serving(PAGE) as server:
        assert (await given.fetch(f"http://127.0.0.1:{server.port}/", max_bytes=4, deadline_s=5)).content == b"abcd"


async def test_a_request_that_is_cancelled_when_it_has_connected_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = anyio.connect_tcp
    scope = anyio.CancelScope()

    async def connect_and_cancel(*arguments: Any, **options: Any) -> Any:
        stream = await connect(*arguments, **options)
        scope.cancel()
        return stream

    monkeypatch.setattr(anyio, "connect_tcp", connect_and_cancel)
    async with ScriptedUpstream() as server:
        server.script(json_reply({"text": "hello"}))
        sender = GuardedSender(EgressClient(allow=["127.0.0.1"]))
        with scope:
            await sender.send(httpx2.Request("GET", server.url))
        assert scope.cancelled_caught
        await wait_until(lambda: server.accepted == 1 and not server.open_connections)
        monkeypatch.undo()
        response = await sender.send(httpx2.Request("GET", server.url))
        assert await response.aread() == b'{"text":"hello"}'
        await sender.aclose()
        await wait_until(lambda: not server.open_connections)
