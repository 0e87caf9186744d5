"""Builds a configuration if there is no file: from API keys, local servers, and a demo model."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import SecretStr

from providers.base import ModelInspector, Provider
from providers.config import PROVIDER_DEFAULTS, ProviderConfig, ProviderType
from providers.engine_checks import is_demo_available
from providers.errors import ProviderError
from providers.registry import build_provider

_PROBE_TIMEOUT_S = 0.5
_HOSTED_TIMEOUT_S = 2.0
"""Seconds in which a hosted service must list its models. Without its list it is served by its patterns alone."""

_DESCRIBE_TIMEOUT_S = 1.0


_DEMO_NOTES: Mapping[str, Any] = {
    "stdio": [sys.executable, "-m", "gateway.demo_notes"],
    "prefix": "",  # the demo model was trained with the plain names of the tools
    "approval": "never",
    "probe": {"tool": "list_notes"},
}


class HostedService(NamedTuple):
    """A hosted service. It is configured if the environment has its API key."""

    provider_type: ProviderType
    patterns: Sequence[str]
    """Patterns of its model names, for models that come while the gateway runs, and if the service lists none."""
    base_url: str | None = None
    """The address of the service, if it is not the default of its type."""


class LocalServer(NamedTuple):
    """A server on this machine. It is configured if it lists models."""

    name: str
    provider_type: ProviderType
    base_url: str


HOSTED_SERVICES = (
    HostedService("openai", ("gpt-*", "o1*", "o3*", "o4*", "chatgpt-*", "codex-*")),
    HostedService("anthropic", ("claude-*",)),
    HostedService("gemini", ("gemini-*",)),
    HostedService("openrouter", ("*/*",)),
)

LOCAL_SERVERS = (
    LocalServer("vllm", "vllm", "http://localhost:8000/v1"),
    LocalServer("ollama", "ollama", "http://localhost:11434"),
)


async def discover_config(
    environ: Mapping[str, str],
    local_servers: Sequence[LocalServer] = LOCAL_SERVERS,
    hosted_services: Sequence[HostedService] | None = None,
) -> dict[str, Any]:
    """Returns settings in the form of a parsed config file.

    The MCP server of the demo notes is always there. The models are the demo models, then the models that local
    servers list, then those of hosted services whose API key is in `environ`: the patterns of their names, and the
    names that they list and that no pattern of theirs matches. The first entry of a name wins. Takes at most as long as
    the slowest service may.
    """
    providers, models = _demo_config()
    services = HOSTED_SERVICES if hosted_services is None else hosted_services
    usable = [service for service in services if environ.get(_key_variable_of(service))]
    listings, hosted = await asyncio.gather(
        asyncio.gather(*(_list_models(server) for server in local_servers)),
        asyncio.gather(*(_list_hosted_models(service, environ[_key_variable_of(service)]) for service in usable)),
    )
    for server, listing in zip(local_servers, listings, strict=True):
        if listing:
            providers[server.name] = {"type": server.provider_type, "base_url": server.base_url}
        for name, facts in listing.items():
            models.setdefault(name, {"provider": server.name, **facts})
    for service, names in zip(usable, hosted, strict=True):
        address = {} if service.base_url is None else {"base_url": service.base_url}
        kind = service.provider_type
        providers[kind] = {"type": kind, "api_key_env": _key_variable_of(service), **address}
        for name in (*service.patterns, *names):
            models.setdefault(name, {"provider": kind})
    return {"providers": providers, "models": models, "tools": {"mcp": {"servers": {"notes": _DEMO_NOTES}}}}


def _demo_config() -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns (providers, models) that need nothing but this machine.

    Without llama.cpp or its model file there is no `demo`: no other model takes its name.
    """
    names = ("demo", "scripted") if is_demo_available() else ("scripted",)
    return {name: {"type": name} for name in names}, {name: {"provider": name} for name in names}


def _key_variable_of(service: HostedService) -> str:
    """Returns the environment variable of the service's API key."""
    return PROVIDER_DEFAULTS[service.provider_type].key_env or ""


async def _list_hosted_models(service: HostedService, key: str) -> list[str]:
    """Returns the names that the service lists and that none of its patterns matches, such as those of embeddings and
    speech. Empty if it does not reply in time, or with an error, such as for a key that it does not know."""
    config = ProviderConfig(
        type=service.provider_type,
        base_url=service.base_url,
        api_key=SecretStr(key),
        connect_s=_HOSTED_TIMEOUT_S,
        retries=0,
    )
    provider = build_provider(service.provider_type, config)
    try:
        async with asyncio.timeout(_HOSTED_TIMEOUT_S):
            names = await _list_plain_names(provider)
    except (ProviderError, TimeoutError):
        return []
    finally:
        await provider.aclose()
    return [name for name in names if not any(fnmatchcase(name, pattern) for pattern in service.patterns)]


async def _list_plain_names(provider: Provider) -> list[str]:
    """Returns the names that a provider lists, without those that would be patterns in the settings."""
    return [name for name in await provider.list_models() if not set("*?[") & set(name)]


async def _list_models(server: LocalServer) -> dict[str, dict[str, Any]]:
    """Returns model name -> config keys that the server reports. Empty if it does not reply in time."""
    config = ProviderConfig(type=server.provider_type, base_url=server.base_url, connect_s=_PROBE_TIMEOUT_S, retries=0)
    provider = build_provider(server.name, config)
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            names = await _list_plain_names(provider)
        return await _describe_models(provider, names) if names else {}
    except (ProviderError, TimeoutError):
        return {}
    finally:
        await provider.aclose()


async def _describe_models(provider: Provider, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Returns model name -> its `capabilities`, if the server reports them in time."""
    descriptions: dict[str, dict[str, Any]] = {name: {} for name in names}
    if not isinstance(provider, ModelInspector):
        return descriptions
    with suppress(TimeoutError):
        async with asyncio.timeout(_DESCRIBE_TIMEOUT_S):
            for name in names:
                if facts := await provider.fetch_model_capabilities(name, {}):
                    descriptions[name] = {"capabilities": dict(facts)}
    return descriptions
