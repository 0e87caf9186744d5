"""Builds providers from their configuration, by type.

A type for an upstream that speaks Chat Completions or Responses is one row here. Any other needs a module and a row.
"""

from collections.abc import Callable
from dataclasses import replace

from providers.base import CountMethod, Provider, WireDialect
from providers.capabilities import (
    CAPABILITIES,
    FUNCTIONS_ONLY_TYPES,
    RESPONSES_CLIENT_TOOL_KINDS,
    RESPONSES_HOSTED_TOOL_KINDS,
)
from providers.config import PROVIDER_DEFAULTS, ProviderConfig, ProviderType
from providers.egress import EgressClient
from providers.engines.servers.llama_provider import LlamaServerProvider
from providers.engines.servers.vllm_provider import VllmServerProvider
from providers.http.exchange import HttpProvider
from providers.http.ollama import OllamaProvider
from providers.http.upstream import Upstream
from providers.scripted.provider import ScriptedProvider


def _require_base_url(config: ProviderConfig) -> str:
    if config.base_url is None:
        raise ValueError(f"a provider of the type {config.type} needs a base_url")
    return config.base_url


def _build_http(name: str, config: ProviderConfig) -> Provider:
    dialects = frozenset(config.dialects)
    capabilities = CAPABILITIES[config.type]
    # An upstream with both APIs gets turns as chat, because only chat has all parameters of a chat client.
    turn_dialect: WireDialect = next((name for name in ("chat", "responses") if name in dialects), "anthropic")
    dialect = PROVIDER_DEFAULTS[config.type].own_dialect or turn_dialect
    if "messages" not in dialects:
        capabilities = replace(capabilities, relayed_features=frozenset())
    if "responses" not in dialects:
        counting: CountMethod = "turn" if capabilities.counting == "responses" else capabilities.counting
        relayed_tools = capabilities.relayed_tools if "messages" in dialects else frozenset()
        capabilities = replace(
            capabilities,
            counting=counting,
            manages_context=False,
            relayed_tools=relayed_tools,
            relayed_kinds=frozenset(),
        )
    if dialect == "responses":
        capabilities = replace(capabilities, audio=False, choices=False, stop_sequences=False)
        if config.type not in FUNCTIONS_ONLY_TYPES:
            kinds = capabilities.tool_kinds | RESPONSES_CLIENT_TOOL_KINDS
            capabilities = replace(
                capabilities, tool_kinds=kinds, hosted_tools=RESPONSES_HOSTED_TOOL_KINDS, relayed_kinds=frozenset()
            )
    capabilities = config.capabilities.apply_to(replace(capabilities, dialects=dialects))
    upstream = Upstream(name, config, _require_base_url(config))
    if config.type == "llama_server":
        return LlamaServerProvider(upstream, capabilities, dialect, has_llguidance=False)
    if config.type == "vllm":
        return VllmServerProvider(upstream, capabilities, dialect)
    return HttpProvider(upstream, capabilities, dialect)


def _build_ollama(name: str, config: ProviderConfig) -> Provider:
    capabilities = config.capabilities.apply_to(CAPABILITIES["ollama"])
    # Ollama's own API is not below `/v1`, which is its API for OpenAI clients.
    base_url = _require_base_url(config).removesuffix("/v1").removesuffix("/api")
    return OllamaProvider(Upstream(name, config, base_url), capabilities)


def _build_harmony(name: str, config: ProviderConfig) -> Provider:
    from providers.harmony.provider import HarmonyProvider

    capabilities = config.capabilities.apply_to(CAPABILITIES["harmony"])
    # Completions are beside the `/v1` that the server has for clients of OpenAI's.
    return HarmonyProvider(Upstream(name, config, _require_base_url(config).removesuffix("/v1")), capabilities)


def _build_llamacpp(name: str, config: ProviderConfig) -> Provider:
    from providers.llamacpp.provider import LlamacppProvider

    return LlamacppProvider(name, config)


def _build_demo(name: str, config: ProviderConfig) -> Provider:
    from providers.demo.provider import DemoProvider

    return DemoProvider(name, config)


def _build_vllm_inprocess(name: str, config: ProviderConfig, egress: EgressClient | None = None) -> Provider:
    from providers.vllm_inprocess.provider import VllmProvider

    return VllmProvider(name, config, egress or EgressClient())


BUILDERS: dict[ProviderType, Callable[[str, ProviderConfig], Provider]] = {
    "openai": _build_http,
    "openrouter": _build_http,
    "anthropic": _build_http,
    "gemini": _build_http,
    "ollama": _build_ollama,
    "vllm": _build_http,
    "llama_server": _build_http,
    "harmony": _build_harmony,
    "openai_compatible": _build_http,
    "llamacpp": _build_llamacpp,
    "vllm_inprocess": _build_vllm_inprocess,
    "demo": _build_demo,
    "scripted": ScriptedProvider,
}


def build_provider(name: str, config: ProviderConfig, egress: EgressClient | None = None) -> Provider:
    """Returns the adapter for one configured upstream. Opens no connection.

    `egress` fetches the URLs in requests, for adapters that fetch them themselves.
    """
    if config.type == "vllm_inprocess":
        return _build_vllm_inprocess(name, config, egress)
    return BUILDERS[config.type](name, config)
