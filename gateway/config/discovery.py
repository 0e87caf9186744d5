"""Builds a configuration if there is no file: from API keys, local servers, and a demo model."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from providers.base import ModelInspector, Provider
from providers.config import PROVIDER_DEFAULTS, ProviderConfig, ProviderType
from providers.engine_checks import is_demo_available
from providers.errors import ProviderError
from providers.registry import build_provider

_PROBE_TIMEOUT_S = 0.5
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
    """Patterns of its model names."""


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
    environ: Mapping[str, str], local_servers: Sequence[LocalServer] = LOCAL_SERVERS
) -> dict[str, Any]:
    """Returns settings in the form of a parsed config file.

    The MCP server of the demo notes is always there. The models are the demo models, then the models that local
    servers list, then patterns for hosted services whose API key is in `environ`. The first entry of a name wins. Takes
    at most as long as the slowest local server may.
    """
    providers, models = _demo_config()
    listings = await asyncio.gather(*(_list_models(server) for server in local_servers))
    for server, listing in zip(local_servers, listings, strict=True):
        if listing:
            providers[server.name] = {"type": server.provider_type, "base_url": server.base_url}
        for name, facts in listing.items():
            models.setdefault(name, {"provider": server.name, **facts})
    for service in HOSTED_SERVICES:
        key_env = PROVIDER_DEFAULTS[service.provider_type].key_env
        if key_env and environ.get(key_env):
            providers[service.provider_type] = {"type": service.provider_type, "api_key_env": key_env}
            for pattern in service.patterns:
                models[pattern] = {"provider": service.provider_type}
    return {"providers": providers, "models": models, "tools": {"mcp": {"servers": {"notes": _DEMO_NOTES}}}}


def _demo_config() -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns (providers, models) that need nothing but this machine.

    Without llama.cpp or its model file there is no `demo`: no other model takes its name.
    """
    names = ("demo", "scripted") if is_demo_available() else ("scripted",)
    return {name: {"type": name} for name in names}, {name: {"provider": name} for name in names}


async def _list_models(server: LocalServer) -> dict[str, dict[str, Any]]:
    """Returns model name -> config keys that the server reports. Empty if it does not reply in time."""
    config = ProviderConfig(type=server.provider_type, base_url=server.base_url, connect_s=_PROBE_TIMEOUT_S, retries=0)
    provider = build_provider(server.name, config)
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            # In the settings a model name is also a pattern. These characters would match other names.
            names = [name for name in await provider.list_models() if not set("*?[") & set(name)]
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
