"""Addresses of upstreams that look as if their end was forgotten: nothing is found there but by a rare proxy."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from providers.config import KINDS, ProviderConfig, ProviderType

_VERSIONED: Final[frozenset[ProviderType]] = frozenset({"openai", "openrouter", "anthropic", "gemini", "vllm"})
"""Types whose API is nowhere but below the path of its version."""


def pathless(providers: Mapping[str, ProviderConfig]) -> Iterator[str]:
    """A hint for each provider whose `base_url` is a host alone, where its type's own has a path."""
    for name, config in providers.items():
        if config.type in _VERSIONED and not urlsplit(config.base_url or "").path.strip("/"):
            path = urlsplit(KINDS[config.type].base_url or "").path
            yield f"providers.{name}.base_url: it has no path; {config.type} usually ends in {path}"
