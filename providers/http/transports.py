"""What carries requests to an upstream, as its configuration says."""

from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

from dataplane.transport import PooledTransport
from providers.config import ProviderConfig

_KEEPALIVE_S: Final = 4.0
"""Some servers close an idle connection after five seconds; those of httpx are not asked before they are used again."""


def build_transport(config: ProviderConfig, base_url: str) -> httpx.AsyncBaseTransport:
    """The gateway's own, or httpx's with the proxy that the environment names for this address."""
    if config.transport == "pooled":
        return build_pooled_transport(config)
    limits = httpx.Limits(max_connections=config.max_connections or None, keepalive_expiry=_KEEPALIVE_S)
    return httpx.AsyncHTTPTransport(limits=limits, proxy=_proxy_for(httpx.URL(base_url)))


def build_pooled_transport(config: ProviderConfig) -> PooledTransport:
    """The gateway's own."""
    return PooledTransport(max_connections=config.max_connections, coalesce_ms=config.coalesce_ms)


def _proxy_for(url: httpx.URL) -> str | None:
    """As `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say, in either case, to whatever reads them."""
    if proxy_bypass(url.host):
        return None
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
