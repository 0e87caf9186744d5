"""Sends requests to the gateway, with retries. Streams are read as frames; failures have the gateway's own messages."""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import httpx

Json: TypeAlias = dict[str, Any]

_RETRYABLE_STATUSES = frozenset({408, 409, 429})
_FIRST_WAIT_S = 0.5
_MAX_WAIT_S = 30.0


class GatewayError(Exception):
    """A request was refused, or its reply failed. `status` is None if the reply had already begun, or if there was no
    reply."""

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None, param: str | None = None):
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param


class JsonFrame(NamedTuple):
    """One server-sent event: its name, if it has one, and its data as JSON."""

    event: str | None
    payload: Json


class FrameReader:
    """Splits the bytes of a stream into frames. The gateway ends lines with LF. The text inside may contain any other
    kind of line break."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, read: bytes) -> list[JsonFrame]:
        """Adds the bytes of one read. Returns the frames that it completes; comments and `[DONE]` are skipped.

        Raises GatewayError for data that is not a JSON object.
        """
        *blocks, self._buffer = (self._buffer + read).split(b"\n\n")
        return [frame for block in blocks if (frame := _parse_frame(block)) is not None]


@dataclass(frozen=True, kw_only=True)
class GatewayClient:
    """The address and credentials of a gateway, and the timeout and retries of requests to it."""

    base_url: str
    api_key: str | None
    timeout_s: float | None
    max_retries: int
    headers: Mapping[str, str]

    def post(self, path: str, body: Json) -> Json:
        """Sends a body and returns the JSON object of the reply. Raises GatewayError."""
        with self._client() as client:
            for wait_s in self._retry_waits():
                try:
                    reply = client.post(path, content=_encode_json(body))
                except httpx.TransportError as error:
                    failure = _transport_failure(error)
                else:
                    if reply.is_success:
                        return _parse_json(reply.content)
                    failure = _error_of_reply(reply)
                    wait_s = _next_wait_s(reply, wait_s)
                _raise_if_last_try(failure, wait_s)
                time.sleep(wait_s or 0)
        raise AssertionError("the last try returns or raises")

    async def apost(self, path: str, body: Json) -> Json:
        """Sends a body and returns the JSON object of the reply. Raises GatewayError."""
        async with self._async_client() as client:
            for wait_s in self._retry_waits():
                try:
                    reply = await client.post(path, content=_encode_json(body))
                except httpx.TransportError as error:
                    failure = _transport_failure(error)
                else:
                    if reply.is_success:
                        return _parse_json(reply.content)
                    failure = _error_of_reply(reply)
                    wait_s = _next_wait_s(reply, wait_s)
                _raise_if_last_try(failure, wait_s)
                await asyncio.sleep(wait_s or 0)
        raise AssertionError("the last try returns or raises")

    def stream(self, path: str, body: Json) -> Generator[JsonFrame, None, None]:
        """Sends a body and yields the frames of the streamed reply. Closing the generator closes the connection. The
        request is only retried before the first frame.

        Raises GatewayError.
        """
        with self._client() as client:
            for wait_s in self._retry_waits():
                begun = False
                try:
                    with client.stream("POST", path, content=_encode_json(body)) as reply:
                        if reply.is_success:
                            reader = FrameReader()
                            for read in reply.iter_bytes():
                                for frame in reader.feed(read):
                                    begun = True
                                    yield frame
                            return
                        reply.read()
                        failure = _error_of_reply(reply)
                        wait_s = _next_wait_s(reply, wait_s)
                except httpx.TransportError as error:
                    failure = _transport_failure(error)
                    wait_s = None if begun else wait_s
                _raise_if_last_try(failure, wait_s)
                time.sleep(wait_s or 0)

    async def astream(self, path: str, body: Json) -> AsyncGenerator[JsonFrame, None]:
        """Sends a body and yields the frames of the streamed reply. Closing the generator closes the connection. The
        request is only retried before the first frame.

        Raises GatewayError.
        """
        async with self._async_client() as client:
            for wait_s in self._retry_waits():
                begun = False
                try:
                    async with client.stream("POST", path, content=_encode_json(body)) as reply:
                        if reply.is_success:
                            reader = FrameReader()
                            async with aclosing(_iter_reads(reply)) as reads:
                                async for read in reads:
                                    for frame in reader.feed(read):
                                        begun = True
                                        yield frame
                            return
                        await reply.aread()
                        failure = _error_of_reply(reply)
                        wait_s = _next_wait_s(reply, wait_s)
                except httpx.TransportError as error:
                    failure = _transport_failure(error)
                    wait_s = None if begun else wait_s
                _raise_if_last_try(failure, wait_s)
                await asyncio.sleep(wait_s or 0)

    def _retry_waits(self) -> Generator[float | None, None, None]:
        """Yields the seconds to wait after each try; None for the last one."""
        yield from (min(_FIRST_WAIT_S * 2**retry, _MAX_WAIT_S) for retry in range(self.max_retries))
        yield None

    def _client(self) -> httpx.Client:
        return httpx.Client(**self._client_options())

    def _async_client(self) -> httpx.AsyncClient:
        # A new client for each request, because pooled connections belong to the event loop that opened them.
        return httpx.AsyncClient(**self._client_options())

    def _client_options(self) -> Json:
        headers = {"content-type": "application/json", **self.headers}
        if self.api_key:
            headers["authorization"] = f"Bearer {self.api_key}"
        return {"base_url": self.base_url, "headers": headers, "timeout": self.timeout_s, "verify": _tls_context()}


def gateway_error_of(error: Json, status: int | None = None) -> GatewayError:
    """Returns the exception for an error object of the gateway."""
    message = str(error.get("message") or "the gateway reported an error without a message")
    return GatewayError(message, status=status, code=error.get("code"), param=error.get("param"))


async def _iter_reads(reply: httpx.Response) -> AsyncGenerator[bytes, None]:
    async for read in reply.aiter_bytes():
        yield read


def _parse_frame(block: bytes) -> JsonFrame | None:
    event: str | None = None
    payload: bytes | None = None
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"event":
            event = value.strip().decode()
        elif name == b"data":
            payload = value.strip()
    if payload is None or payload == b"[DONE]":
        return None
    return JsonFrame(event, _parse_json(payload))


def _parse_json(content: bytes) -> Json:
    try:
        parsed = json.loads(content)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise GatewayError("the server's reply is not a JSON object: check that base_url is the address of a gateway")
    return parsed


def _encode_json(body: Json) -> bytes:
    return json.dumps(body).encode()


def _error_of_reply(reply: httpx.Response) -> GatewayError:
    try:
        error = reply.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = None
    if not isinstance(error, dict):
        error = {"message": f"the server replied with status {reply.status_code} and without an error message"}
    return gateway_error_of(error, reply.status_code)


def _transport_failure(error: httpx.TransportError) -> GatewayError:
    if isinstance(error, httpx.TimeoutException):
        return GatewayError("the gateway did not reply in time", code="timeout")
    return GatewayError(f"the gateway cannot be reached: {error or type(error).__name__}", code="unreachable")


def _next_wait_s(reply: httpx.Response, wait_s: float | None) -> float | None:
    """Returns the seconds to wait before the next try: the reply's `retry-after`, or else `wait_s`. None if there is no
    next try."""
    if wait_s is None or not (reply.status_code in _RETRYABLE_STATUSES or reply.status_code >= 500):
        return None
    try:
        return min(max(float(reply.headers.get("retry-after", wait_s)), 0.0), _MAX_WAIT_S)
    except ValueError:
        return wait_s


def _raise_if_last_try(failure: GatewayError, wait_s: float | None) -> None:
    if wait_s is None:
        raise failure


@cache
def _tls_context() -> ssl.SSLContext:
    """Returns the TLS context that all clients share, because creating one takes longer than many requests."""
    return httpx.create_ssl_context()
