"""Upstreams that would be the gateway itself, which would ask itself until nothing is left to ask with."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.config.yaml_file import Problem
from providers.config import KINDS, ProviderConfig, ProviderType, is_loopback
from translation.representation.json_types import mapping_in

_VERSIONED: Final[frozenset[ProviderType]] = frozenset({"openai", "openrouter", "anthropic", "gemini", "vllm"})
"""Types whose API is nowhere but below the path of its version."""


def pathless(providers: Mapping[str, ProviderConfig]) -> Iterator[str]:
    """A hint for each provider whose `base_url` is a host alone, where its type's own has a path."""
    for name, config in providers.items():
        if config.type in _VERSIONED and not urlsplit(config.base_url or "").path.strip("/"):
            path = urlsplit(KINDS[config.type].base_url or "").path
            yield f"providers.{name}.base_url: it has no path; {config.type} usually ends in {path}"


_HOST: Final = "127.0.0.1"
_PORT: Final = 8080
"""Where the server listens if nothing is said."""

_PORTS: Final = {"http": 80, "https": 443}


def own_addresses(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """One problem for each provider. `tree`: the whole configuration, in which anything may be wrong."""
    server = mapping_in(tree.get("server"))
    host, port = server.get("host", _HOST), server.get("port", _PORT)
    if not isinstance(host, str):
        return
    for name, given in mapping_in(tree.get("providers")).items():
        url = _address(mapping_in(given))
        if url is not None and _is_at(url, host, port):
            told = f"{url} is where the gateway itself listens: write the upstream's address, or another server.port"
            yield Problem(("providers", name, "base_url"), told)


def _address(provider: Mapping[str, Any]) -> str | None:
    usual = next((row.base_url for kind, row in KINDS.items() if kind == provider.get("type")), None)
    url = provider.get("base_url") or usual
    return url if isinstance(url, str) else None


def _is_at(url: str, host: str, port: object) -> bool:
    try:
        parts = urlsplit(url)
        asked, asked_port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return False  # no address at all, and reported as such
    if asked_port != port:
        return False
    if asked == host:
        return True
    if not is_loopback(asked):
        return False
    # A name means both of the addresses that a machine has for itself, and whoever listens on all has both.
    return _is_every(host) or (is_loopback(host) and not (_is_number(asked) and _is_number(host)))


def _is_every(host: str) -> bool:
    return _is_number(host) and ipaddress.ip_address(host).is_unspecified


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
