"""Request bodies: reads them up to a size and a deadline, and parses them as one JSON object.

Knows no schema of any API.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import orjson
from starlette.types import Receive, Scope

from dataplane.body_weight import INLINE_BYTES, weigh_body
from dataplane.core import measure_json
from dataplane.http_protocol import CLIENT, ClientWriter
from dataplane.json_shape import JsonShape
from gateway.errors import BodyTooLarge, BodyTooSlow, NotJson
from gateway.http.compressed_bodies import decompress_body, find_coding
from gateway.http.cross_site import NEEDS_JSON_TYPE, require_json_type
from gateway.http.guard import ClientDisconnected
from gateway.http.headers import headers_of
from gateway.http.large_bodies import LargeBodyPool
from translation.exact_numbers import parse_with_tool_data
from translation.representation.json_types import Json

_DISCARD_S = 1.0


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The most bytes, levels of nesting and values of a body, and the seconds in which it must arrive."""

    max_bytes: int
    max_depth: int
    max_values: int
    deadline_s: float = 60.0


SizedBody: TypeAlias = tuple[Json, int, int]
"""A body, the number of its bytes, and its weight (see `weigh_body`). A named tuple would cost each request more."""


async def read_json(scope: Scope, receive: Receive, limits: BodyLimits, pool: LargeBodyPool) -> SizedBody:
    """Reads the request's body and returns it as one JSON object. A large one is parsed in a thread.

    A compressed body is decompressed. Raises UnsupportedContentType as `require_json_type` does, UnsupportedEncoding
    for an unknown compression, BodyTooLarge over the limit of bytes, BodyTooSlow after the deadline, NotJson as
    `parse_json_object` does, and ClientDisconnected.
    """
    headers = headers_of(scope)
    if (buffered := parse_buffered_body(scope, headers, limits)) is not None:
        return buffered
    body = await _read_body(receive, headers, limits)
    if (coding := find_coding(headers.get(b"content-encoding", b""))) is not None:
        # In a thread, because its size is only known afterwards.
        body = await pool.call_weighed(INLINE_BYTES + 1, decompress_body, body, coding, limits.max_bytes)
    weight, shape = weigh_body(body)
    return await pool.call_weighed(weight, parse_json_object, body, limits, weight, shape), len(body), weight


def parse_buffered_body(scope: Scope, headers: Mapping[bytes, bytes], limits: BodyLimits) -> SizedBody | None:
    """Returns the body if the server has already read all of it and it is not compressed; None if it has to be awaited
    with `read_json`. `headers` are those of the request, by their names in lower case.

    Raises UnsupportedContentType (see `require_json_type`), UnsupportedEncoding, BodyTooLarge and NotJson.
    """
    if NEEDS_JSON_TYPE in scope:
        require_json_type(headers.get(b"content-type", b""))
    if (encoding := headers.get(b"content-encoding")) is not None and find_coding(encoding) is not None:
        return None
    client: ClientWriter | None = scope.get(CLIENT)
    body = None if client is None else client.take_body(INLINE_BYTES)
    if body is None:
        return None
    size = len(body)
    if size > limits.max_bytes:
        raise build_too_large_error(limits.max_bytes)
    return parse_json_object(body, limits, size), size, size


def parse_json_object(body: bytes, limits: BodyLimits, weight: int, shape: JsonShape | None = None) -> Json:
    """Parses a body of this `weight` as one JSON object. `shape` is its shape if it was measured (see `weigh_body`).

    Raises NotJson, with the byte offset of the first error, if the body is empty, not UTF-8, not JSON, not an object,
    or if it is nested too deeply or has too many values.
    """
    if not body:
        raise NotJson("the body is empty: send a JSON object")
    max_depth = limits.max_depth
    # Most bodies are too small to exceed a limit.
    if shape is None and (
        len(body) > INLINE_BYTES or weight > limits.max_values or body.count(b"[") + body.count(b"{") > max_depth
    ):
        shape = measure_json(body)
    depth = 0
    if shape is not None:
        values, depth = shape
        if values > limits.max_values:
            raise NotJson(f"the body has more than {limits.max_values} JSON values (server.max_json_values)")
    try:
        parsed = parse_with_tool_data(body)
    except orjson.JSONDecodeError as error:
        # orjson has its own limit of nesting, with its own message.
        if "depth" in error.msg:
            raise NotJson(f"the body is nested deeper than {max_depth} levels (server.max_json_depth)") from None
        # orjson rejects invalid UTF-8, but reports neither the byte nor its offset.
        if (offset := _invalid_utf8_offset(body)) is not None:
            raise NotJson(f"the body is not UTF-8 text: byte {offset} is 0x{body[offset]:02x}") from None
        raise NotJson(f"the body is not valid JSON: {error.msg} at byte {error.pos}") from None
    if not isinstance(parsed, dict):
        raise NotJson("the body must be a JSON object")
    if depth > max_depth:
        raise NotJson(f"the body is nested deeper than {max_depth} levels (server.max_json_depth)")
    return parsed


async def _read_body(receive: Receive, headers: Mapping[bytes, bytes], limits: BodyLimits) -> bytes:
    max_bytes = limits.max_bytes
    try:
        if (declared := headers.get(b"content-length", b"")).isdigit() and int(declared) > max_bytes:
            raise build_too_large_error(max_bytes)
        async with asyncio.timeout(limits.deadline_s):
            return await _read_chunks(receive, max_bytes)
    except TimeoutError:
        raise BodyTooSlow(f"the body did not arrive within {limits.deadline_s:g} s (server.body_s)") from None
    except BodyTooLarge:
        if b"expect" not in headers:  # reading would send 100 Continue to a client that waits for it
            await discard_body(receive)
        raise


async def _read_chunks(receive: Receive, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise build_too_large_error(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def discard_body(receive: Receive) -> None:
    """Reads and drops the rest of a body for up to a second.

    Closing a connection on which the client still sends resets it, and the client loses the reply.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_S):
            while (message := await receive())["type"] != "http.disconnect" and message.get("more_body", False):
                continue


def build_too_large_error(max_bytes: int) -> BodyTooLarge:
    """Returns the error for a body with too many bytes. It closes the connection, on which the rest may arrive."""
    return BodyTooLarge(
        f"the body is larger than {max_bytes / (1024 * 1024):g} MB (server.max_body_mb)",
        headers={"connection": "close"},
    )


def _invalid_utf8_offset(body: bytes) -> int | None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None
