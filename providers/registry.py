"""Kind of upstream -> its facts: a row for one that speaks chat or Responses, a file and a row for anything else."""

from collections.abc import Callable
from dataclasses import replace

from providers.base import Counting, Dialect, Provider, WireDialect
from providers.capabilities import CAPABILITIES, CLIENT_RUN_TOOLS, HOSTED_TOOLS
from providers.config import KINDS, ProviderConfig, ProviderType
from providers.egress import Egress
from providers.engines.servers.llama_provider import LlamaServerProvider
from providers.engines.servers.provider import ContinuingProvider
from providers.engines.servers.vllm_server import VllmServerEngine
from providers.http.exchange import WireProvider
from providers.http.ollama import OllamaProvider
from providers.http.upstream import Upstream
from providers.scripted.provider import ScriptedProvider


def _wire(name: str, config: ProviderConfig) -> Provider:
    assert config.base_url is not None
    dialects = frozenset(config.dialects)
    capabilities = CAPABILITIES[config.type]
    # Turns are said in chat where both are spoken: it is the one of the two that every parameter of a chat client fits.
    spoken: Dialect = "chat" if "chat" in dialects else "responses"
    dialect: WireDialect = KINDS[config.type].own or spoken
    if "responses" not in dialects:
        counting: Counting = "turn" if capabilities.counting == "responses" else capabilities.counting
        capabilities = replace(capabilities, counting=counting, manages_context=False)
    if dialect == "responses":
        kinds = capabilities.tool_kinds | CLIENT_RUN_TOOLS
        capabilities = replace(capabilities, tool_kinds=kinds, hosted_tools=HOSTED_TOOLS, audio=False, choices=False)
    capabilities = replace(capabilities, dialects=dialects, **config.capabilities.given())
    upstream = Upstream(name, config, config.base_url)
    if config.type == "llama_server":
        return LlamaServerProvider(upstream, capabilities, dialect, guided=False)
    if config.type == "vllm":
        return ContinuingProvider(upstream, capabilities, dialect, VllmServerEngine)
    return WireProvider(upstream, capabilities, dialect)


def _ollama(name: str, config: ProviderConfig) -> Provider:
    assert config.base_url is not None
    capabilities = replace(CAPABILITIES["ollama"], **config.capabilities.given())
    # Its own API is beside the `/v1` that it has for clients of OpenAI's.
    base_url = config.base_url.removesuffix("/v1").removesuffix("/api")
    return OllamaProvider(Upstream(name, config, base_url), capabilities)


def _harmony(name: str, config: ProviderConfig) -> Provider:
    from providers.harmony.provider import HarmonyProvider

    assert config.base_url is not None
    capabilities = replace(CAPABILITIES["harmony"], **config.capabilities.given())
    # Completions are beside the `/v1` that the server has for clients of OpenAI's.
    return HarmonyProvider(Upstream(name, config, config.base_url.removesuffix("/v1")), capabilities)


def _llamacpp(name: str, config: ProviderConfig) -> Provider:
    from providers.llamacpp.provider import LlamacppProvider

    return LlamacppProvider(name, config)


def _vllm_inprocess(name: str, config: ProviderConfig, egress: Egress | None = None) -> Provider:
    from providers.vllm_inprocess.provider import VllmProvider

    return VllmProvider(name, config, egress or Egress())


BUILDERS: dict[ProviderType, Callable[[str, ProviderConfig], Provider]] = {
    "openai": _wire,
    "openrouter": _wire,
    "anthropic": _wire,
    "gemini": _wire,
    "ollama": _ollama,
    "vllm": _wire,
    "llama_server": _wire,
    "harmony": _harmony,
    "openai_compatible": _wire,
    "llamacpp": _llamacpp,
    "vllm_inprocess": _vllm_inprocess,
    "scripted": ScriptedProvider,
}


def build(name: str, config: ProviderConfig, egress: Egress | None = None) -> Provider:
    """The adapter for one configured upstream. Opens no connection.

    `egress`: how adapters fetch what requests hold the URLs of, where they do that themselves.
    """
    if config.type == "vllm_inprocess":
        return _vllm_inprocess(name, config, egress)
    return BUILDERS[config.type](name, config)
