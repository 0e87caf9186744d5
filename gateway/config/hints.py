"""Finds settings that are valid and probably unintended, for the warnings of `check-config`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit

from gateway.config.model_config import UpstreamRow
from gateway.config.settings import Settings
from gateway.config.yaml_file import Problem
from providers.base import Capabilities
from providers.capabilities import CAPABILITIES
from providers.config import PROVIDER_DEFAULTS, ProviderType

_VERSIONED_TYPES: Final[frozenset[ProviderType]] = frozenset({"openai", "openrouter", "anthropic", "gemini", "vllm"})
"""Provider types whose API is only available below a versioned path."""

_MIN_KEY_CHARS: Final = 16
"""Shorter keys can be guessed. A random key of this length has 64 bits even if all its characters are hex digits."""

_LIMITS_OF_KEYS: Final = ("open_requests", "websockets")
"""Limits that only apply to requests with a key."""

_WILDCARDS: Final = frozenset("*?[")

_ANY_TEXTS: Final = ("", "\ue000", "\ue000\ue001")
"""Texts that replace a `*`. No configured pattern contains these characters, so only wildcards match them."""


def find_hints(settings: Settings) -> Iterator[Problem]:
    """Yields one problem for each setting that is probably a mistake."""
    if not settings.models:
        message = "no request can be served: write providers and models, as config.example.yaml does"
        yield Problem(("models",) if settings.providers else (), message)
    yield from _find_missing_paths(settings)
    yield from _find_unused_providers(settings)
    yield from _find_unreachable_models(list(settings.models))
    yield from _find_weak_keys(settings)
    yield from _find_open_doors(settings)
    yield from _find_limits_of_keys(settings)
    yield from _find_unusable_servers(settings)
    yield from dict.fromkeys(_find_odd_upstreams(settings))


def _find_missing_paths(settings: Settings) -> Iterator[Problem]:
    """Yields a problem for each `base_url` without a path, if the default of its type has one."""
    for name, config in settings.providers.items():
        if config.type in _VERSIONED_TYPES and not urlsplit(config.base_url or "").path.strip("/"):
            path = urlsplit(PROVIDER_DEFAULTS[config.type].base_url or "").path
            yield Problem(
                ("providers", name, "base_url"), f"the address has no path; {config.type} usually ends in {path}"
            )


def _find_unused_providers(settings: Settings) -> Iterator[Problem]:
    used = {row.provider for model in settings.models.values() for row in model.rows}
    for name in settings.providers if used else ():
        if name not in used:
            yield Problem(("providers", name), "no model uses this provider: name it in a model, or remove it")


def _find_unreachable_models(patterns: Sequence[str]) -> Iterator[Problem]:
    for number, pattern in enumerate(patterns):
        earlier = next((other for other in patterns[:number] if _covers(other, pattern)), None)
        if earlier is not None:
            yield Problem(("models", pattern), f"never used: {earlier} above matches it, and the first match wins")


def _covers(pattern: str, other: str) -> bool:
    """Returns whether `pattern` matches each name that `other` matches.

    May return False for patterns that overlap in a way that it does not detect.
    """
    if "[" in other:
        return pattern == "*"
    samples = [other.replace("?", "\ue000").replace("*", text) for text in _ANY_TEXTS]
    return all(fnmatchcase(sample, pattern) for sample in samples)


def _find_weak_keys(settings: Settings) -> Iterator[Problem]:
    names, keys = list(settings.models), settings.auth.keys if settings.auth else ()
    adds_servers = any(key.admin for key in keys)
    for number, key in enumerate(keys):
        if key.admin and settings.store.url is None:
            message = "no server can be added without a store: write store.url"
            yield Problem(("auth", "keys", number, "admin"), message)
        if key.has_expired(datetime.now(UTC)):
            message = f"{key.name} has expired: remove the key, or write a later time"
            yield Problem(("auth", "keys", number, "expires_at"), message)
        if key.length is not None and key.length < _MIN_KEY_CHARS:
            message = f"{key.name} has a key of fewer than {_MIN_KEY_CHARS} characters: write a longer one"
            yield Problem(("auth", "keys", number, "key"), message)
        for index, allowed in enumerate(key.models):
            is_known = any(fnmatchcase(name, allowed) or _WILDCARDS & set(name) for name in names)
            if not is_known:
                yield Problem(("auth", "keys", number, "models", index), f"no model is called {allowed}")
        for index, allowed in enumerate(key.mcp_servers if not adds_servers else ()):
            if allowed != "*" and not any(fnmatchcase(label, allowed) for label in settings.tools.mcp.servers):
                yield Problem(("auth", "keys", number, "mcp_servers", index), f"no MCP server is called {allowed}")


def _find_open_doors(settings: Settings) -> Iterator[Problem]:
    """Yields a problem for each way by which others than the users of this machine reach a server without keys."""
    if settings.auth is not None:
        return
    if settings.server.hosts:
        names = ", ".join(settings.server.hosts)
        message = f"whoever reaches the server as {names} may use it, because there are no auth.keys"
        yield Problem(("server", "hosts"), message)
    if settings.server.cors is not None and "*" in settings.server.cors.origins:
        message = "every web page may run requests and tools of this server, because there are no auth.keys"
        yield Problem(("server", "cors", "origins"), message)


def _find_limits_of_keys(settings: Settings) -> Iterator[Problem]:
    """Yields a problem for each limit per key that was written for a server without keys."""
    for name in _LIMITS_OF_KEYS if settings.auth is None else ():
        if getattr(settings.limits, name) != type(settings.limits).model_fields[name].default:
            message = "never applied: without auth.keys clients cannot be told apart, and one could stop all others"
            yield Problem(("limits", name), message)


def _find_unusable_servers(settings: Settings) -> Iterator[Problem]:
    """Yields a problem for each model with MCP servers whose upstream has no tools, and for servers without tools."""
    for name, model in settings.models.items():
        if model.tools.mcp and not any(_has_tools(row, settings) for row in model.rows):
            message = (
                "the upstream has no tools, so every request is refused: remove this key, or write capabilities.tools"
            )
            yield Problem(("models", name, "tools", "mcp"), message)
    for label, server in settings.tools.mcp.servers.items():
        if not server.allow:
            yield Problem(("tools", "mcp", "servers", label, "allow"), "no tool of the server is allowed")


def _has_tools(row: UpstreamRow, settings: Settings) -> bool:
    provider = settings.providers[row.provider]
    # Providers of types that are not in the table determine the capabilities of their model themselves.
    known = provider.capabilities.apply_to(CAPABILITIES.get(provider.type, Capabilities(tools=True)))
    return row.resolve_capabilities(known).tools


def _find_odd_upstreams(settings: Settings) -> Iterator[Problem]:
    """Yields a problem for each key of several upstreams that is probably not meant."""
    for name, model in settings.models.items():
        if model.upstreams is None:
            continue
        path = ("models", name)
        if model.balance == "prefix" and model.affinity == "none":
            message = "balance: prefix is an affinity, and affinity: none only turns the other keys off"
            yield Problem((*path, "affinity"), message)
        tiers = sorted({row.tier for row in model.upstreams})
        if tiers != list(range(len(tiers))):
            message = f"there are the tiers {', '.join(map(str, tiers))}: a gap between them has no effect"
            yield Problem((*path, "upstreams"), message)
        for number, row in enumerate(model.upstreams):
            in_tier = [other for other in model.upstreams if other.tier == row.tier]
            if "weight" in row.model_fields_set and len(in_tier) == 1 and row.weight:
                message = f"it has no effect on the only row of tier {row.tier}"
                yield Problem((*path, "upstreams", number, "weight"), message)
        first_content_s = settings.routing.for_model(model.routing).first_content_s
        silence_s = min(settings.providers[row.provider].silence_s for row in model.rows)
        if first_content_s is not None and first_content_s >= silence_s:
            is_own = model.routing is not None and "first_content_s" in model.routing.model_fields_set
            message = f"a provider's silence_s of {silence_s:g} s ends the wait before"
            yield Problem((*(path if is_own else ()), "routing", "first_content_s"), message)
