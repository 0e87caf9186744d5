"""Upstreams that cannot be connected to, over real sockets: the next one is asked, and it costs nothing."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.faults.client_view import CHAT
from tests.faults.config import StartGateway
from tests.faults.upstreams.test_attempts import APIS, TEXT, Row, ask, expect_failure, rejected, shared
from tests.faults.upstreams.test_delivered import report
from tests.upstream.faults import ANSWERS, sound
from tests.upstream.script import Pause, Reply, reset
from tests.upstream.server import ScriptedUpstream, closed_port

CONNECT_S = 0.2
HOST = "127.0.0.1"


@asynccontextmanager
async def refuse(_: Path) -> AsyncIterator[str]:
    yield f"http://{HOST}:{closed_port()}/v1"


@asynccontextmanager
async def resolve_nothing(_: Path) -> AsyncIterator[str]:
    """A name that the system's resolver does not know."""
    real = socket.getaddrinfo

    def look_up(host: Any, *args: Any, **named: Any) -> Any:
        if host == "nowhere.test":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *args, **named)

    socket.getaddrinfo = look_up
    try:
        yield "http://nowhere.test/v1"
    finally:
        socket.getaddrinfo = real


def write_certificate(folder: Path) -> Path:
    """Writes a certificate of this host that nobody has signed, with its key, and returns the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = folder / "server.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(certificate.public_bytes(pem) + key.private_bytes(pem, *form))
    return file


@asynccontextmanager
async def serve_untrusted_tls(folder: Path) -> AsyncIterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificate(folder))

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(answer, HOST, 0, ssl=context) as server:
        yield f"https://{HOST}:{server.sockets[0].getsockname()[1]}/v1"


@asynccontextmanager
async def accept_and_say_nothing(_: Path) -> AsyncIterator[str]:
    """The handshake of TLS never ends, which is a part of connecting."""
    with socket.create_server((HOST, 0)) as listener:
        yield f"https://{HOST}:{listener.getsockname()[1]}/v1"


@asynccontextmanager
async def accept_nobody(_: Path) -> AsyncIterator[str]:
    """A listener whose backlog is full, so that the system drops further connections."""
    with socket.create_server((HOST, 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}/v1"
        finally:
            for each in waiting:
                each.close()


Opener: TypeAlias = Callable[[Path], AbstractAsyncContextManager[str]]
"""Opens an upstream to which nobody gets a connection, in a folder for its files, and yields its URL."""

ROWS: dict[str, Opener] = {
    "refused": refuse,
    "a name that does not resolve": resolve_nothing,
    "an untrusted certificate": serve_untrusted_tls,
    "no handshake in time": accept_and_say_nothing,
    "no connection in time": accept_nobody,
}


def configure(first: str, second: str, **routing: Any) -> dict[str, Any]:
    """Returns a configuration whose first upstream has a deadline that a test waits for, and the second too if it is
    the same."""
    config = shared(first, second, **routing)
    for provider in config["providers"].values():
        if provider["base_url"] == first:
            provider["connect_s"] = CONNECT_S
    return config


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_the_next_upstream_serves_what_one_without_a_connection_cannot(
    row: Opener, path: str, stream: bool, gateway: StartGateway, tmp_path: Path
) -> None:
    async with row(tmp_path) as first, ScriptedUpstream() as second:
        second.script(sound(ANSWERS["responses"]))
        no_budget = {"retries_per_s": 0, "retry_share": 0, "retry_unsafe": False}  # nothing was sent
        running = gateway(configure(first, second.url, eject_failures=1, **no_budget))
        seen, headers = await ask(running.v1, path, stream=stream)
        states = [upstream["state"] for upstream in await report(running.url)]
    assert (seen.status, seen.text) == (200, TEXT)
    assert (headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == ("second", "2")
    assert states == ["ejected", "available"]


@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_without_any_connection_the_upstreams_are_unreachable(
    row: Opener, path: str, gateway: StartGateway, tmp_path: Path
) -> None:
    async with row(tmp_path) as url:
        config = configure(url, url)
        config["providers"]["second"]["dialects"] = ["chat"]
        seen, headers = await ask(gateway(config).v1, path, stream=True)
    outcome = Row(None, True, 502, "upstream_unreachable")
    assert (seen.status, None if path == "/messages" else seen.code) == expect_failure(outcome, path, stream=True)
    assert headers["x-gateway-attempts"] == "3"  # one of them a second time, after a short wait


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "JSON"])
@pytest.mark.parametrize("path", APIS.values(), ids=APIS)
async def test_a_pool_without_a_free_connection_lets_the_next_upstream_serve(
    path: str, stream: bool, gateway: StartGateway
) -> None:
    go_on, answer = asyncio.Event(), ANSWERS["chat"]
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        first.script(Reply(headers=answer.headers, body=[answer.opening, Pause(go_on), *answer.frames[answer.cut :]]))
        second.script(sound(ANSWERS["responses"]))
        no_budget = {"retries_per_s": 0, "retry_share": 0, "retry_unsafe": False}
        config = configure(first.url, second.url, eject_failures=1, **no_budget)
        # What a request waits for a free connection, too.
        config["providers"]["first"] |= {"max_connections": 1, "connect_s": 1.0}
        running = gateway(config)
        held = asyncio.ensure_future(ask(running.v1, CHAT, stream=True))
        await first.received(1)
        seen, headers = await ask(running.v1, path, stream=stream)
        states = [upstream["state"] for upstream in await report(running.url)]
        second.script(rejected(401))  # that yields to the failure before
        refused, refused_headers = await ask(running.v1, path, stream=stream)
        go_on.set()
        await held
    assert (seen.status, seen.text) == (200, TEXT)
    assert (headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == ("second", "2")
    assert states == ["available", "available"]  # it says nothing of the upstream's health
    assert (refused.status, refused_headers["retry-after"]) == (529 if path == "/messages" else 503, "1")
    assert len(first.requests) == 1


async def test_a_stale_connection_is_replaced_without_an_attempt(gateway: StartGateway) -> None:
    """The upstream closes a kept connection as the next request arrives: it is sent again on a fresh one."""
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        answer = sound(ANSWERS["chat"])
        first.script(answer, reset, answer)
        running = gateway(shared(first.url, second.url, eject_failures=1))
        await ask(running.v1, CHAT, stream=False)
        seen, headers = await ask(running.v1, CHAT, stream=False)
        assert len(first.requests) == 3
        states = [upstream["state"] for upstream in await report(running.url)]
    assert (seen.status, headers["x-gateway-upstream"], headers["x-gateway-attempts"]) == (200, "first", "1")
    assert states == ["available", "available"]
    assert not second.requests
