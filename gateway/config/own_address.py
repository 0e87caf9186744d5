"""Finds upstreams that are the gateway itself, which would send requests to itself until its resources are exhausted.

Also finds a listener for metrics at the address of the gateway, and describes addresses of upstreams for the log.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.config.telemetry_settings import split_address
from gateway.config.yaml_file import Problem
from providers.config import PROVIDER_DEFAULTS, ProviderConfig, is_loopback
from translation.representation.json_types import mapping_or_empty


def describe_address(config: ProviderConfig) -> str:
    """Returns the address of a provider's upstream for the log: `http://127.0.0.1:8000`, without path and credentials.

    A provider without an upstream is described by its type.
    """
    parts = urlsplit(config.base_url or "")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else f"{config.type} in the gateway"


_DEFAULT_HOST: Final = "127.0.0.1"
_DEFAULT_PORT: Final = 8080
"""The port on which the server listens by default."""

_SCHEME_PORTS: Final = {"http": 80, "https": 443}


def check_own_addresses(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields one problem per provider whose upstream is this gateway. `tree` is the unvalidated configuration."""
    server = mapping_or_empty(tree.get("server"))
    host, port = server.get("host", _DEFAULT_HOST), server.get("port", _DEFAULT_PORT)
    if not isinstance(host, str):
        return
    for name, provider in mapping_or_empty(tree.get("providers")).items():
        url = _base_url_of(mapping_or_empty(provider))
        if url is not None and _is_own_address(url, host, port):
            message = f"{url} is where the gateway itself listens: write the upstream's address, or another server.port"
            yield Problem(("providers", name, "base_url"), message)


def check_metrics_address(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields a problem if the metrics have the address of the server. `tree` is the unvalidated configuration."""
    server, metrics = mapping_or_empty(tree.get("server")), mapping_or_empty(tree.get("metrics"))
    host, port = server.get("host", _DEFAULT_HOST), server.get("port", _DEFAULT_PORT)
    listen = metrics.get("listen")
    if not isinstance(host, str) or not isinstance(listen, str) or metrics.get("enabled") is False:
        return
    address = split_address(listen)
    if address is not None and address[1] == port and port and _share_addresses(address[0], host):
        message = (
            f"{listen} is where the server itself listens: write another port, or leave the key out, "
            "and /metrics is on the main port"
        )
        yield Problem(("metrics", "listen"), message)


def _share_addresses(one: str, other: str) -> bool:
    """Whether two hosts to listen on have an address in common."""
    if one == other:
        return True
    if "::" in (one, other):
        return True  # all addresses, those of IPv4 too
    if _is_wildcard(one) or _is_wildcard(other):
        return ":" not in one + other
    # `localhost` stands for both loopback addresses, 127.0.0.1 and ::1.
    return is_loopback(one) and is_loopback(other) and not (_is_ip_address(one) and _is_ip_address(other))


def _base_url_of(provider: Mapping[str, Any]) -> str | None:
    default = next((row.base_url for kind, row in PROVIDER_DEFAULTS.items() if kind == provider.get("type")), None)
    url = provider.get("base_url") or default
    return url if isinstance(url, str) else None


def _is_own_address(url: str, host: str, port: object) -> bool:
    try:
        parts = urlsplit(url)
        url_host, url_port = parts.hostname or "", parts.port or _SCHEME_PORTS.get(parts.scheme)
    except ValueError:
        return False  # no valid URL, which another check reports
    if url_port != port:
        return False
    if url_host == host:
        return True
    if not is_loopback(url_host):
        return False
    # `localhost` stands for both loopback addresses, 127.0.0.1 and ::1. A wildcard host listens on both.
    return _is_wildcard(host) or (is_loopback(host) and not (_is_ip_address(url_host) and _is_ip_address(host)))


def _is_wildcard(host: str) -> bool:
    return _is_ip_address(host) and ipaddress.ip_address(host).is_unspecified


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
