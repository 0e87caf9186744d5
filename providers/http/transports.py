"""Builds the HTTP transport of an upstream from its configuration, and adapts the replies of httpx."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Final, cast
from urllib.request import getproxies, proxy_bypass

import httpx

from dataplane.source import IteratedSource
from dataplane.transport import PooledTransport
from providers.config import ProviderConfig
from providers.http.httpx_connections import HttpxConnections

_KEEPALIVE_S: Final = 4.0
"""The seconds for which httpx keeps an idle connection. Some servers close one after five seconds, and httpx does not
check a connection before it is reused."""


class HttpxBody(IteratedSource[bytes]):
    """A reply body that httpx reads and decompresses. Some upstreams compress although no request accepts it."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(cast("AsyncGenerator[bytes, None]", response.aiter_bytes()), b"")
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.raw}
        self._response = response

    async def close(self, *, whole: bool = False) -> None:
        await super().close()
        await self._response.aclose()


def build_transport(config: ProviderConfig, base_url: str) -> httpx.AsyncBaseTransport:
    """Returns the gateway's own transport, or httpx's with the proxy that the environment names for `base_url`."""
    if config.transport == "pooled":
        return build_pooled_transport(config)
    return _build_httpx_connections(config, _KEEPALIVE_S, _proxy_for(httpx.URL(base_url)))


def build_upload_transport(config: ProviderConfig) -> httpx.AsyncBaseTransport:
    """Returns a transport for bodies that are sent while they arrive. It reuses no connection: such a body cannot be
    sent again if the server was closing it."""
    return _build_httpx_connections(config, keepalive_s=0.0)


def _build_httpx_connections(config: ProviderConfig, keepalive_s: float, proxy: str | None = None) -> HttpxConnections:
    limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEEPALIVE_S)
    tls = httpx.create_ssl_context()  # it takes longer than a request, so all connections share it
    make_connection = partial(httpx.AsyncHTTPTransport, verify=tls, limits=limits, proxy=proxy)
    make_connection()  # a proxy of a kind that httpx does not know is an error of the start, not of each request
    return HttpxConnections(
        make_connection,
        max_connections=config.max_connections,
        keepalive_s=keepalive_s,
    )


def build_pooled_transport(config: ProviderConfig) -> PooledTransport:
    """Returns the gateway's own transport."""
    return PooledTransport(max_connections=config.max_connections, coalesce_ms=config.coalesce_ms)


def _proxy_for(url: httpx.URL) -> str | None:
    """Returns the proxy for a URL, from `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` in upper or lower
    case."""
    if proxy_bypass(url.host):
        return None
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
