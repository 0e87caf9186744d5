"""A configuration for those who wrote none: whatever keys and servers this machine has, and a demo model."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from providers.base import ModelInspector, Provider
from providers.config import PROVIDER_DEFAULTS, ProviderConfig, ProviderType
from providers.engine_checks import is_llamacpp_installed
from providers.errors import ProviderError
from providers.registry import build_provider

_PROBE_TIMEOUT_S = 0.5
_DESCRIBE_TIMEOUT_S = 1.0

TINY_MODEL = Path(__file__).parents[2] / "models/tiny-reasoner.gguf"
"""In the source tree; a package that was installed without it has the scripted model instead."""

_TINY_MODEL_CONFIG: dict[str, Any] = {
    "provider": "demo",
    "two_pass": True,
    "max_thinking_tokens": 256,
    "max_response_tokens": 512,
    "tool_parser": "hermes",
    "request_defaults": {"temperature": 0},
}


class HostedService(NamedTuple):
    """A service that is there if its key is."""

    provider_type: ProviderType
    patterns: Sequence[str]
    """Which names are its."""


class LocalServer(NamedTuple):
    """A server that is there if it answers."""

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
    """Settings in the form of a config file: the demo models, what local servers list, then what the keys open."""
    providers, models = _demo_config()
    listings = await asyncio.gather(*(_list_models(server) for server in local_servers))
    for server, served in zip(local_servers, listings, strict=True):
        if served:
            providers[server.name] = {"type": server.provider_type, "base_url": server.base_url}
        for name, facts in served.items():
            models.setdefault(name, {"provider": server.name, **facts})
    for service in HOSTED_SERVICES:
        key_env = PROVIDER_DEFAULTS[service.provider_type].key_env
        if key_env and environ.get(key_env):
            providers[service.provider_type] = {"type": service.provider_type, "api_key_env": key_env}
            for pattern in service.patterns:
                models[pattern] = {"provider": service.provider_type}
    return {"providers": providers, "models": models}


def _demo_config() -> tuple[dict[str, Any], dict[str, Any]]:
    """Providers and models that need nothing but this machine: a real engine as `demo` where there is one."""
    scripted = {"type": "scripted"}
    if not is_llamacpp_installed() or not TINY_MODEL.exists():
        return {"scripted": scripted}, {"demo": {"provider": "scripted"}, "scripted": {"provider": "scripted"}}
    # One thread: for so small a model they wait for each other longer than they work.
    engine = {"n_ctx": 8192, "cpuparams": {"n_threads": 1}}
    tiny = {"type": "llamacpp", "model": str(TINY_MODEL), "engine": engine}
    return {"demo": tiny, "scripted": scripted}, {"demo": _TINY_MODEL_CONFIG, "scripted": {"provider": "scripted"}}


async def _list_models(server: LocalServer) -> dict[str, dict[str, Any]]:
    """The names the server serves, and what it tells of each; none if nothing answers there in time."""
    config = ProviderConfig(type=server.provider_type, base_url=server.base_url, connect_s=_PROBE_TIMEOUT_S, retries=0)
    provider = build_provider(server.name, config)
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            # A name is also a pattern in the settings, where these would stand for other characters.
            names = [name for name in await provider.list_models() if not set("*?[") & set(name)]
        return await _describe_models(provider, names) if names else {}
    except (ProviderError, TimeoutError):
        return {}
    finally:
        await provider.aclose()


async def _describe_models(provider: Provider, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the models can do, as far as the server tells that in time."""
    known: dict[str, dict[str, Any]] = {name: {} for name in names}
    if not isinstance(provider, ModelInspector):
        return known
    with suppress(TimeoutError):
        async with asyncio.timeout(_DESCRIBE_TIMEOUT_S):
            for name in names:
                if facts := await provider.fetch_model_capabilities(name, {}):
                    known[name] = {"capabilities": dict(facts)}
    return known
