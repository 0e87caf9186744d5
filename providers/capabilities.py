"""The default capabilities of each provider type. The configuration can override them."""

from dataclasses import replace
from typing import get_args

from providers.base import Capabilities
from providers.config import ProviderType
from providers.relayed_paths import URL_PATHS, RelayedPathName
from translation.request_facts import RelayedFeature
from translation.tools.searches import SEARCH_KINDS

_CHAT_CAPABILITIES = Capabilities(
    streaming=True,
    tools=True,
    parallel_tools=True,
    images=True,
    audio=True,
    files=True,
    reasoning=True,
    json_schema=True,
    logprobs=True,
    service_tiers=True,
    choices=True,
    models=True,
    counting="turn",
)
"""Every feature that a chat server may have. A server refuses requests that it cannot honour with its own error."""

RESPONSES_CLIENT_TOOL_KINDS = frozenset(
    {"custom", "namespace", "shell", "local_shell", "apply_patch", "tool_search", "computer"}
)
"""Kinds of client tools, beside functions, that the Responses dialect can express."""

RESPONSES_HOSTED_TOOL_KINDS = SEARCH_KINDS | frozenset(
    {
        "file_search",
        "code_interpreter",
        "image_generation",
        "mcp",
        "computer_use_preview",
        "programmatic_tool_calling",
    }
)
"""Kinds of tools that an upstream with the Responses dialect may run itself."""

_RESPONSES_KINDS = RESPONSES_CLIENT_TOOL_KINDS | RESPONSES_HOSTED_TOOL_KINDS

FUNCTIONS_ONLY_TYPES: frozenset[ProviderType] = frozenset({"vllm", "llama_server"})
"""Types whose Responses API knows only functions. It refuses no other tools: llama.cpp leaves them out, and vLLM offers
some as functions, whose calls then are no calls of the client's tools."""

_ALL_FEATURES: frozenset[RelayedFeature] = frozenset(get_args(RelayedFeature))
"""The features of a server with all of the Messages API. The servers of vLLM and llama.cpp leave out most of them."""

_TEXT_PATHS: frozenset[RelayedPathName] = frozenset({"embeddings", "completions"})
_TOKEN_PATHS: frozenset[RelayedPathName] = frozenset({"rerank", "tokenize", "detokenize"})
_LISTENING_PATHS: frozenset[RelayedPathName] = frozenset({"transcriptions", "translations"})
_ALL_PATHS: frozenset[RelayedPathName] = frozenset(URL_PATHS)

CAPABILITIES: dict[ProviderType, Capabilities] = {
    "openai": replace(
        _CHAT_CAPABILITIES,
        tool_kinds=frozenset({"function", "custom"}),
        relayed_tools=RESPONSES_HOSTED_TOOL_KINDS,
        relayed_kinds=_RESPONSES_KINDS,
        sealed_reasoning=True,
        search_sources=True,
        manages_context=True,
        counting="responses",
        endpoints=_ALL_PATHS - _TOKEN_PATHS,
    ),
    "openrouter": replace(
        _CHAT_CAPABILITIES,
        relayed_kinds=_RESPONSES_KINDS,
        relayed_features=_ALL_FEATURES,
        endpoints=_TEXT_PATHS,
    ),
    "anthropic": Capabilities(
        prefill=True,
        service_tiers=True,
        streaming=True,
        tools=True,
        parallel_tools=True,
        hosted_tools=SEARCH_KINDS,
        relayed_tools=SEARCH_KINDS | {"mcp"},
        relayed_features=_ALL_FEATURES,
        images=True,
        files=True,
        reasoning=True,
        json_schema=True,
        models=True,
        counting="own",
    ),
    "gemini": Capabilities(
        streaming=True,
        tools=True,
        parallel_tools=True,
        hosted_tools=SEARCH_KINDS,
        images=True,
        audio=True,
        files=True,
        reasoning=True,
        json_schema=True,
        logprobs=True,
        models=True,
        counting="own",
    ),
    "ollama": replace(
        _CHAT_CAPABILITIES, audio=False, service_tiers=False, choices=False, prefill=True, endpoints=_TEXT_PATHS
    ),
    "vllm": replace(
        _CHAT_CAPABILITIES,
        service_tiers=False,
        counting="tokenize",
        two_pass=True,
        input_grammars=True,
        endpoints=_TEXT_PATHS | _TOKEN_PATHS | _LISTENING_PATHS,
    ),
    "llama_server": replace(
        _CHAT_CAPABILITIES,
        service_tiers=False,
        counting="chat",
        two_pass=True,
        input_grammars=True,
        choices=False,
        prefill=True,
        endpoints=_TEXT_PATHS | _TOKEN_PATHS,
    ),
    "harmony": Capabilities(
        streaming=True,
        tools=True,
        trained_tools=frozenset({"browser"}),
        reasoning=True,
        json_schema=True,
        models=True,
        counting="own",
    ),
    "openai_compatible": replace(
        _CHAT_CAPABILITIES,
        relayed_kinds=_RESPONSES_KINDS,
        relayed_features=_ALL_FEATURES,
        endpoints=_ALL_PATHS,
    ),
}
