"""What web pages may do to a server without keys: every route, by name, origin, kind of site and content type."""

import re
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.serving import Gateway, serving

Headers = dict[str, str]

KEY = "key-of-team-a-0123456789"
APP = "https://app.example.com"
EVIL = "https://evil.example"
CONFIG: dict[str, Any] = {
    "providers": {"scripted": {"type": "scripted"}},
    "models": {"demo": {"provider": "scripted"}},
    "server": {"hosts": ["gateway.example.com", "fd00::1"], "cors": {"origins": [APP]}},
}
KEYS = {"keys": [{"name": "team-a", "key": KEY, "admin": True}]}

REFUSALS = {421: "host_not_allowed", 403: "origin_not_allowed", 415: "unsupported_content_type"}


class Sender(NamedTuple):
    """The headers of a request, and the status with which a server without keys refuses it; None if it does not."""

    headers: Headers
    refusal: int | None


SENDERS: dict[str, Sender] = {
    "a program": Sender({}, None),
    "a program, by a name of the configuration": Sender({"host": "gateway.example.com"}, None),
    "a program, by that name in capitals and with a port": Sender({"host": "Gateway.Example.COM:8443"}, None),
    "a program, by an address of the configuration": Sender({"host": "[fd00::1]:8080"}, None),
    "a program, by localhost": Sender({"host": "localhost:9000"}, None),
    "a program, by a name below localhost": Sender({"host": "gateway.localhost"}, None),
    "a program, by the loopback of IPv6": Sender({"host": "[::1]:8080"}, None),
    "a browser, by its address bar": Sender({"sec-fetch-site": "none"}, None),
    "a page of this server": Sender({"host": "localhost:1", "origin": "http://localhost:1"}, None),
    "a page of this server behind TLS": Sender(
        {"host": "gateway.example.com", "origin": "https://gateway.example.com"}, None
    ),
    "a page of this server behind TLS, by a proxy that adds the port": Sender(
        {"host": "gateway.example.com:443", "origin": "https://gateway.example.com"}, None
    ),
    "a page of this server by the port of HTTP": Sender({"host": "localhost:80", "origin": "http://localhost"}, None),
    "a page of this server whose origin has the port of HTTP": Sender(
        {"host": "localhost", "origin": "http://localhost:80"}, None
    ),
    "a page of the configuration": Sender({"origin": APP, "sec-fetch-site": "cross-site"}, None),
    "a name that leads here": Sender({"host": "evil.example"}, 421),
    "a page of a name that leads here": Sender({"host": "evil.example", "origin": "http://evil.example"}, 421),
    "a name that begins as an address": Sender({"host": "127.0.0.1.evil.example"}, 421),
    "a name that ends as one of the configuration": Sender({"host": "xgateway.example.com"}, 421),
    "an address that is not this machine": Sender({"host": "0.0.0.0:8080"}, 421),
    "no name": Sender({"host": ""}, 421),
    "a page of another site": Sender({"origin": EVIL, "sec-fetch-site": "cross-site"}, 403),
    "a page on another port": Sender({"host": "localhost:1", "origin": "http://localhost:2"}, 403),
    "a page on the port of the other scheme": Sender({"host": "localhost:443", "origin": "http://localhost"}, 403),
    "a page of another site, by the port of HTTPS": Sender(
        {"host": "localhost:443", "origin": "https://evil:443"}, 403
    ),
    "a page of no name, by a port alone": Sender({"host": "localhost:443", "origin": "https://:443"}, 403),
    "a page without an origin": Sender({"origin": "null"}, 403),
    "a page with the origin of a page of this server in it": Sender(
        {"host": "localhost:1", "origin": "http://localhost:1.evil.example"}, 403
    ),
    "an image or a link of another site": Sender({"sec-fetch-site": "cross-site"}, 403),
}


def list_operations(gateway: Gateway) -> list[tuple[str, str, bool]]:
    """(method, path, whether it has a JSON body) of every route: those of the document, pages, and others."""
    document = httpx.get(f"{gateway.url}/openapi.json", trust_env=False, timeout=60).json()
    documented = [
        (
            method.upper(),
            re.sub(r"\{.*?\}", "x", path),
            "application/json" in operation.get("requestBody", {}).get("content", {}),
        )
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    pages = ["/", "/docs", "/pages/home.json", "/pages/api.json", "/pages/home.js", "/openapi.json", "/none"]
    return [*documented, *(("GET", path, False) for path in pages), ("HEAD", "/", False), ("PUT", "/none", False)]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with serving(CONFIG) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def locked() -> Iterator[Gateway]:
    with serving({**CONFIG, "auth": KEYS}) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=60) as client:
        yield client


def code_of(reply: httpx.Response) -> str | None:
    """The code of an error in the form of OpenAI's APIs; None in another form."""
    error = reply.json().get("error")
    return error.get("code") if isinstance(error, dict) and "param" in error else None


def check_reply(reply: httpx.Response, refusal: int | None) -> None:
    where = f"{reply.request.method} {reply.request.url}: {reply.status_code} {reply.text[:200]}"
    if refusal is None:
        # Only a key makes an administrator.
        assert reply.status_code not in REFUSALS or code_of(reply) == "administrator_required", where
        return
    assert reply.status_code == refusal, where
    if reply.request.method != "HEAD":
        assert code_of(reply) in (REFUSALS[refusal], None, refusal), where


@pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)
def test_a_server_without_keys_serves_programs_and_its_own_pages(
    sender: Sender, gateway: Gateway, client: httpx.Client
) -> None:
    operations = list_operations(gateway)
    assert len(operations) > 70
    for method, path, _ in operations:
        body: Headers | None = None if method in ("GET", "HEAD", "DELETE") else {}
        check_reply(client.request(method, gateway.url + path, headers=sender.headers, json=body), sender.refusal)


@pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)
def test_with_keys_the_key_decides(sender: Sender, locked: Gateway, client: httpx.Client) -> None:
    for method, path in (
        ("GET", "/"),
        ("GET", "/v1/models"),
        ("POST", "/v1/responses"),
        ("POST", "/v1/messages"),
        ("POST", "/api/chat"),
        ("POST", "/v1/embeddings"),
        ("GET", "/v1/gateway/mcp-servers"),
    ):
        body: Headers | None = None if method == "GET" else {}
        reply = client.request(method, locked.url + path, headers=sender.headers, json=body)
        assert reply.status_code == (200 if path == "/" else 401)
        with_key = {**sender.headers, "authorization": f"Bearer {KEY}"}
        check_reply(client.request(method, locked.url + path, headers=with_key, json=body), None)


BODY_TYPES: dict[str, tuple[Headers, bool]] = {
    "JSON": ({"content-type": "application/json"}, True),
    "JSON with a charset": ({"content-type": "Application/JSON; charset=utf-8"}, True),
    "JSON of a kind": ({"content-type": "application/problem+json"}, True),
    "text": ({"content-type": "text/plain"}, False),
    "text with JSON in a parameter": ({"content-type": "text/plain;a=application/json"}, False),
    "a form": ({"content-type": "application/x-www-form-urlencoded"}, False),
    "none": ({}, False),
}


@pytest.mark.parametrize(("headers", "is_json"), BODY_TYPES.values(), ids=BODY_TYPES)
def test_pages_must_declare_json(headers: Headers, is_json: bool, gateway: Gateway, client: httpx.Client) -> None:
    operations = [
        (method, path)
        for method, path, has_json in list_operations(gateway)
        if has_json and not path.startswith("/v1/gateway/mcp-servers")  # for administrators only, who have a key
    ]
    assert len(operations) > 30
    for method, path in operations:
        from_page = {"origin": APP, **headers}
        reply = client.request(method, gateway.url + path, headers=from_page, content=b"{}")
        check_reply(reply, None if is_json else 415)
        # Programs need no type: many do not send one.
        check_reply(client.request(method, gateway.url + path, headers=headers, content=b"{}"), None)


def test_a_page_of_another_site_runs_nothing(gateway: Gateway, client: httpx.Client) -> None:
    body = b'{"model": "demo", "input": "Hi", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}'
    for path in ("/v1/responses", "/v1/chat/completions", "/v1/messages", "/generate", "/api/chat"):
        headers = {"content-type": "text/plain", "origin": EVIL, "sec-fetch-site": "cross-site"}
        assert client.post(gateway.url + path, content=body, headers=headers).status_code == 403
        assert client.post(gateway.url + path, content=body, headers={"host": "evil.example"}).status_code == 421
        assert client.post(gateway.url + path, content=body, headers={"content-type": "text/plain"}).status_code == 200


def test_a_refusal_names_the_key_to_set_and_can_be_read_by_the_page(gateway: Gateway, client: httpx.Client) -> None:
    asked = client.options(
        f"{gateway.v1}/responses",
        headers={
            "origin": EVIL,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type,x-stainless-os",
        },
    )
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == EVIL
    assert asked.headers["access-control-allow-headers"] == "content-type,x-stainless-os"
    reply = client.post(f"{gateway.v1}/responses", json={}, headers={"origin": EVIL})
    assert reply.headers["access-control-allow-origin"] == EVIL
    assert "server.cors.origins" in reply.json()["error"]["message"]
    assert EVIL in reply.json()["error"]["message"]
    reply = client.get(f"{gateway.v1}/models", headers={"host": "evil.example"})
    assert "'evil.example'" in reply.json()["error"]["message"]
    assert "server.hosts" in reply.json()["error"]["message"]


def test_any_page_may_use_a_server_that_allows_every_origin(client: httpx.Client) -> None:
    with serving({**CONFIG, "server": {"cors": {"origins": ["*"]}}}) as gateway:
        for headers in ({"origin": EVIL}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
            check_reply(client.post(f"{gateway.v1}/responses", json={}, headers=headers), None)
        check_reply(client.get(f"{gateway.v1}/models", headers={"host": "evil.example"}), 421)


@pytest.mark.parametrize("sender", SENDERS.values(), ids=SENDERS)
def test_websockets_obey_the_same_rules(sender: Sender, gateway: Gateway, locked: Gateway) -> None:
    assert open_socket(gateway, sender.headers) == (sender.refusal or 101)
    # With keys too: no other rule of browsers limits WebSockets.
    refusal = 403 if sender.refusal == 403 and "origin" in sender.headers else 101
    assert open_socket(locked, sender.headers) == (403 if refusal == 403 else 401)
    assert open_socket(locked, {**sender.headers, "authorization": f"Bearer {KEY}"}) == refusal


def open_socket(gateway: Gateway, headers: Headers) -> int:
    """The status of the reply to a handshake. Clients of WebSockets do not let their users replace `Host`."""
    handshake = {
        "host": gateway.url.removeprefix("http://"),
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in handshake.items())
    port = int(gateway.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(f"GET /v1/responses HTTP/1.1\r\n{lines}\r\n".encode())
        return int(connection.recv(4096).split(b" ")[1])
