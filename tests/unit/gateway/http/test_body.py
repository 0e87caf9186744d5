"""Bodies are refused early and with a reason, unless they are one JSON object."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from starlette.requests import Request

from dataplane import body_weight
from dataplane.body_weight import INLINE_BYTES, weigh_body
from dataplane.core import measure_json
from dataplane.json_shape import JsonShape
from gateway.errors import BodyTooLarge, BodyTooSlow, GatewayError, NotJson, UnsupportedEncoding
from gateway.http import body as bodies
from gateway.http.body import BodyLimits, parse_json_object, read_json
from gateway.http.guard import ClientDisconnected
from gateway.http.large_bodies import LargeBodyPool

MB = 1024 * 1024


def request(chunks: Iterable[bytes | None], **headers: str) -> Request:
    """Returns a request with these chunks. None is a client that leaves; after the last chunk nothing arrives."""
    chunks = list(chunks)
    left = iter(enumerate(chunks, start=1))

    async def receive() -> dict[str, Any]:
        number, chunk = next(left, (0, b""))
        if number == 0:
            await asyncio.Event().wait()
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": number < len(chunks) or None in chunks}

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, receive)


async def read(asked: Request, *, deadline_s: float = 5.0, max_bytes: int = MB) -> dict[str, Any]:
    limits, pool = BodyLimits(max_bytes, 10, 10_000, deadline_s), LargeBodyPool()
    content, size, weight = await read_json(asked.scope, asked.receive, limits, pool)
    assert size >= weight >= 2
    return content


async def test_a_body_may_come_in_pieces() -> None:
    assert await read(request([b'{"a"', b":1", b"}"])) == {"a": 1}


async def test_a_large_body_is_parsed_beside_the_event_loop() -> None:
    text = "x" * INLINE_BYTES
    assert await read(request([b'{"a":"%b"}' % text.encode()])) == {"a": text}


async def test_a_body_with_the_encoding_identity_is_read() -> None:
    assert await read(request([b"{}"], content_encoding="identity")) == {}


REFUSED: dict[str, tuple[Request, type[GatewayError], str]] = {
    "too long, by its header": (request([b"{}"], content_length=str(MB + 1)), BodyTooLarge, "1 MB"),
    "too long, by its bytes": (request([b" " * MB, b" "]), BodyTooLarge, "1 MB"),
    "compressed in another way": (request([b"{}"], content_encoding="lz4"), UnsupportedEncoding, "lz4"),
    "compressed, but not as it says": (request([b"{}"], content_encoding="gzip"), NotJson, "not valid gzip"),
    "empty": (request([b""]), NotJson, "empty"),
    "cut": (request([b'{"a":']), NotJson, "not valid JSON"),
    "not UTF-8": (request([b'{"a":"\xff"}']), NotJson, "not UTF-8 text: byte 6 is 0xff"),
    "a list": (request([b"[]"]), NotJson, "object"),
    "a number": (request([b"1"]), NotJson, "object"),
    "not a number": (request([b'{"a":NaN}']), NotJson, "not valid JSON"),
    "nested too deep": (request([b'{"a":' * 11 + b"1" + b"}" * 11]), NotJson, "deeper than 10"),
    "of too many values": (request([b'{"a":[' + b"1," * 10_000 + b"1]}"]), NotJson, "server.max_json_values"),
    "nested far too deep": (request([b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"]), NotJson, "deeper than 10"),
}


@pytest.mark.parametrize(("refused_request", "kind", "words"), REFUSED.values(), ids=REFUSED)
async def test_a_body_is_refused_that_is(refused_request: Request, kind: type[GatewayError], words: str) -> None:
    with pytest.raises(kind, match=words):
        await read(refused_request)


async def test_a_missing_body_times_out() -> None:
    with pytest.raises(BodyTooSlow, match=r"server\.body_s"):
        await read(request([]), deadline_s=0.01)


async def test_a_client_that_leaves_while_it_sends_is_disconnected() -> None:
    with pytest.raises(ClientDisconnected):
        await read(request([b'{"a":', None]))


async def test_the_rest_of_a_refused_body_is_dropped() -> None:
    asked = request([b" " * MB] * 4, content_length=str(4 * MB))
    with pytest.raises(BodyTooLarge) as refusal:
        await read(asked)
    assert refusal.value.headers == {"connection": "close"}
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asked.receive(), 0.001)


async def test_a_client_that_expects_100_continue_is_refused_without_its_body() -> None:
    asked = request([b" "], content_length=str(4 * MB), expect="100-continue")
    with pytest.raises(BodyTooLarge):
        await read(asked)
    assert (await asked.receive())["body"] == b" "


@pytest.mark.parametrize(
    "body",
    [b'{"a":' * 10 + b"1" + b"}" * 10, b'{"a":[' + b"{}," * 50 + b"{}]}", b'{"a":"' + b"[" * 50 + b'"}'],
    ids=["as deep as it may be", "wide, not deep", "brackets in a text"],
)
def test_only_nesting_counts_as_depth(body: bytes) -> None:
    assert parse_json_object(body, BodyLimits(MB, 10, 1000), len(body)).keys() == {"a"}


@pytest.mark.parametrize("text", ["x", "x" * 100_000, "[" * 100_000], ids=["small", "large", "brackets in a text"])
def test_a_body_one_level_too_deep_is_refused(text: str) -> None:
    allowed = b'{"b":"%b","a":' % text.encode() + b"[" * 9 + b"]" * 9 + b"}"
    assert parse_json_object(allowed, BodyLimits(MB, 10, 1000), len(allowed)).keys() == {"a", "b"}
    deeper = allowed.replace(b"[]", b"[{}]")
    with pytest.raises(NotJson, match="deeper than 10 levels"):
        parse_json_object(deeper, BodyLimits(MB, 10, 1000), len(deeper))


def test_the_values_of_a_light_body_are_limited_too() -> None:
    body = b'{"a":[' + b"1," * 1000 + b"1]}"
    with pytest.raises(NotJson, match="more than 1000 JSON values"):
        parse_json_object(body, BodyLimits(MB, 10, 1000), *weigh_body(body))


@pytest.mark.parametrize("text", ["x", "x" * 1_000_000, "x" * 3_000_000], ids=["small", "planned here", "heavy"])
async def test_a_body_is_measured_at_most_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure(body: bytes) -> JsonShape:
        measured.append(len(body))
        return measure_json(body)

    for module in (bodies, body_weight):
        monkeypatch.setattr(module, "measure_json", measure)
    body = b'{"a":"%b"}' % text.encode()
    assert await read(request([body[:10], body[10:]]), max_bytes=4 * MB) == {"a": text}
    assert measured == ([] if len(body) <= INLINE_BYTES else [len(body)])
