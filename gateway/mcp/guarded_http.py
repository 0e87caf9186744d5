"""The HTTP transport of connections to MCP servers: through the egress guard, and with a limit of bytes."""

from collections.abc import AsyncIterator
from functools import cache
from ssl import SSLContext

import httpx2

from providers.egress import EgressClient

_HEADERS_LEFT_OUT = frozenset({b"accept-encoding"})
"""Compression is not asked for, because a few compressed bytes can unpack to any size."""


class ResultTooLarge(httpx2.StreamError):
    """A server sent a reply of more bytes than are allowed."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to the addresses that the egress guard allows, and cuts replies that are too large.

    `status` is the status of the last reply, for error messages; None before the first.
    """

    def __init__(self, egress: EgressClient, *, max_bytes: int) -> None:
        self.status: int | None = None
        self._egress = egress
        self._max_bytes = max_bytes
        self._transport = httpx2.AsyncHTTPTransport(verify=_tls_context(), trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises EgressRefused if the host may not be reached, and httpx2.TransportError."""
        url = request.url
        addresses = await self._egress.resolve(url.scheme, url.host, url.port)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in _HEADERS_LEFT_OUT]
        guarded = httpx2.Request(
            request.method,
            url.copy_with(host=addresses[0]),
            headers=headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.raw_host.decode("ascii")},
        )
        reply = await self._transport.handle_async_request(guarded)
        self.status = reply.status_code
        reply.stream = _BoundedStream(reply.stream, self._max_bytes)
        return reply

    async def aclose(self) -> None:
        await self._transport.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: object, max_bytes: int) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > self._max_bytes:
                raise ResultTooLarge(f"the server's reply is larger than {self._max_bytes} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


@cache
def _tls_context() -> SSLContext:
    return httpx2.create_ssl_context(trust_env=False)
