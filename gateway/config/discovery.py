"""A configuration for those who wrote none: whatever keys and servers this machine has, and a demo model."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from providers.base import Describing, Provider
from providers.config import KINDS, ProviderConfig, ProviderType
from providers.engine_checks import is_llamacpp_installed
from providers.errors import ProviderError
from providers.registry import build

_PROBE_S = 0.5
_DESCRIBE_S = 1.0

TINY_MODEL = Path(__file__).parents[2] / "models/tiny-reasoner.gguf"
"""In the source tree; a package that was installed without it has the scripted model instead."""

_TINY: dict[str, Any] = {
    "provider": "demo",
    "two_pass": True,
    "max_thinking_tokens": 256,
    "max_response_tokens": 512,
    "tool_parser": "hermes",
    "request_defaults": {"temperature": 0},
}


class Hosted(NamedTuple):
    """A service that is there if its key is."""

    kind: ProviderType
    patterns: Sequence[str]
    """Which names are its."""


class Local(NamedTuple):
    """A server that is there if it answers."""

    name: str
    kind: ProviderType
    base_url: str


HOSTED = (
    Hosted("openai", ("gpt-*", "o1*", "o3*", "o4*", "chatgpt-*", "codex-*")),
    Hosted("anthropic", ("claude-*",)),
    Hosted("gemini", ("gemini-*",)),
    Hosted("openrouter", ("*/*",)),
)

LOCAL = (
    Local("vllm", "vllm", "http://localhost:8000/v1"),
    Local("ollama", "ollama", "http://localhost:11434"),
)


async def discover(environ: Mapping[str, str], local: Sequence[Local] = LOCAL) -> dict[str, Any]:
    """Settings in the form of a config file: the demo models, what local servers list, then what the keys open."""
    providers, models = _demo()
    listings = await asyncio.gather(*(_list(server) for server in local))
    for server, served in zip(local, listings, strict=True):
        if served:
            providers[server.name] = {"type": server.kind, "base_url": server.base_url}
        for name, told in served.items():
            models.setdefault(name, {"provider": server.name, **told})
    for service in HOSTED:
        key_env = KINDS[service.kind].key_env
        if key_env and environ.get(key_env):
            providers[service.kind] = {"type": service.kind, "api_key_env": key_env}
            for pattern in service.patterns:
                models[pattern] = {"provider": service.kind}
    return {"providers": providers, "models": models}


def _demo() -> tuple[dict[str, Any], dict[str, Any]]:
    """Providers and models that need nothing but this machine: a real engine as `demo` where there is one."""
    scripted = {"type": "scripted"}
    if not is_llamacpp_installed() or not TINY_MODEL.exists():
        return {"scripted": scripted}, {"demo": {"provider": "scripted"}, "scripted": {"provider": "scripted"}}
    # One thread: for so small a model they wait for each other longer than they work.
    engine = {"n_ctx": 8192, "cpuparams": {"n_threads": 1}}
    tiny = {"type": "llamacpp", "model": str(TINY_MODEL), "engine": engine}
    return {"demo": tiny, "scripted": scripted}, {"demo": _TINY, "scripted": {"provider": "scripted"}}


async def _list(server: Local) -> dict[str, dict[str, Any]]:
    """The names the server serves, and what it tells of each; none if nothing answers there in time."""
    config = ProviderConfig(type=server.kind, base_url=server.base_url, connect_s=_PROBE_S, retries=0)
    provider = build(server.name, config)
    try:
        async with asyncio.timeout(_PROBE_S):
            # A name is also a pattern in the settings, where these would stand for other characters.
            names = [name for name in await provider.models() if not set("*?[") & set(name)]
        return await _describe(provider, names) if names else {}
    except (ProviderError, TimeoutError):
        return {}
    finally:
        await provider.aclose()


async def _describe(provider: Provider, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the models can do, as far as the server tells that in time."""
    known: dict[str, dict[str, Any]] = {name: {} for name in names}
    if not isinstance(provider, Describing):
        return known
    with suppress(TimeoutError):
        async with asyncio.timeout(_DESCRIBE_S):
            for name in names:
                if facts := await provider.described(name, {}):
                    known[name] = {"capabilities": dict(facts)}
    return known
