"""Sends HTTP requests to addresses that the egress guard allows, and follows no redirects."""

from functools import cache
from ssl import SSLContext
from typing import Final

import httpx2

from providers.egress import EgressClient

_HEADERS_LEFT_OUT: Final = frozenset({b"accept-encoding", b"user-agent"})
_HEADERS_ADDED: Final = [(b"Accept-Encoding", b"identity"), (b"User-Agent", b"responses-gateway")]
"""Compression is refused, because a few compressed bytes can unpack to any size."""


class GuardedSender:
    """Connections to the addresses that the guard checked, and to no others."""

    def __init__(self, egress: EgressClient) -> None:
        self._egress = egress
        self._transport = httpx2.AsyncHTTPTransport(verify=_tls_context(), trust_env=False)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Raises EgressRefused if the host may not be reached, and httpx2.TransportError."""
        url = request.url
        addresses = await self._egress.resolve(url.scheme, url.host, url.port)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in _HEADERS_LEFT_OUT]
        failure: Exception | None = None
        for address in addresses:
            guarded = httpx2.Request(
                request.method,
                url.copy_with(host=address),
                headers=headers + _HEADERS_ADDED,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": url.raw_host.decode("ascii")},
            )
            try:
                return await self._transport.handle_async_request(guarded)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure or httpx2.ConnectError("the host has no address")

    async def aclose(self) -> None:
        await self._transport.aclose()


@cache
def _tls_context() -> SSLContext:
    return httpx2.create_ssl_context(trust_env=False)
