"""Builds the HTTP transport of an upstream from its configuration."""

from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

from dataplane.transport import PooledTransport
from providers.config import ProviderConfig

_KEEPALIVE_S: Final = 4.0
"""How long httpx keeps an idle connection. Some servers close one after five seconds, and httpx does not check a
connection before it is reused."""


def build_transport(config: ProviderConfig, base_url: str) -> httpx.AsyncBaseTransport:
    """Returns the gateway's own transport, or httpx's with the proxy that the environment names for `base_url`."""
    if config.transport == "pooled":
        return build_pooled_transport(config)
    limits = httpx.Limits(max_connections=config.max_connections or None, keepalive_expiry=_KEEPALIVE_S)
    return httpx.AsyncHTTPTransport(limits=limits, proxy=_proxy_for(httpx.URL(base_url)))


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
