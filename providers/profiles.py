"""The default profile of each provider type. A model's family and its own settings in the configuration override it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from providers.config import PROVIDER_DEFAULTS, TOKENS_ONLY_TYPES, ProviderType
from providers.model_families import ModelFamily, RawTextFormat
from translation.representation.profile import DEFAULT_PROFILE, CacheTtl, Profile, SchemaShim, two_pass_profile

_COMMON_PARAMS = frozenset({"top_k", "min_p", "repetition_penalty"})
"""Parameters outside OpenAI's APIs that all open servers accept."""

_OPENROUTER_PARAMS = _COMMON_PARAMS | {
    "provider",
    "models",
    "route",
    "transforms",
    "plugins",
    "preset",
    "usage",
    "top_a",
    "cache_control",
    "include_reasoning",
    "session_id",
    "trace",
}
"""https://openrouter.ai/docs/api-reference/parameters"""

_OPENROUTER_CACHE_MARKS: Final[Mapping[str, CacheTtl]] = {
    "*claude*": "1h",
    # Those that Alibaba serves. It keeps no prompt longer, and snapshots, whose names end with a date, have no such
    # cache. DeepSeek V3.2 needs a mark at Alibaba too, but other hosts of it cache every prompt.
    "qwen/*-max": "5m",
    "qwen/*-plus": "5m",
    "qwen/*-flash": "5m",
}
"""https://openrouter.ai/docs/guides/best-practices/prompt-caching"""

_ANTHROPIC_PARAMS = frozenset({"top_k", "cache_control", "container", "context_management", "inference_geo"})
"""https://docs.claude.com/en/api/messages"""

_GEMINI_PARAMS = frozenset({"top_k", "cached_content", "cachedContent", "safety_settings", "safetySettings"})
"""https://ai.google.dev/api/generate-content"""

_OLLAMA_PARAMS = _COMMON_PARAMS | {
    "keep_alive",
    "num_ctx",
    "num_keep",
    "repeat_last_n",
    "repeat_penalty",
    "shift",
    "truncate",
    "typical_p",
}
"""https://github.com/ollama/ollama/blob/main/docs/api.md and the parameters of a Modelfile"""

_VLLM_PARAMS = _COMMON_PARAMS | {
    "add_generation_prompt",
    "add_special_tokens",
    "allowed_token_ids",
    "bad_words",
    "cache_salt",
    "chat_template",
    "chat_template_kwargs",
    "continue_final_message",
    "documents",
    "guided_choice",
    "guided_decoding_backend",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "guided_whitespace_pattern",
    "ignore_eos",
    "include_reasoning",
    "include_stop_str_in_output",
    "kv_transfer_params",
    "length_penalty",
    "min_tokens",
    "mm_processor_kwargs",
    "priority",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop_token_ids",
    "structured_outputs",
    "thinking_token_budget",
    "truncate_prompt_tokens",
    "use_beam_search",
    "vllm_xargs",
}
"""The fields of vLLM's `ChatCompletionRequest`, except those that add fields to the reply for which a translated reply
has no place (`prompt_logprobs`, `return_token_ids`). Those are reported as losses."""

_VLLM_ENGINE_PARAMS = _VLLM_PARAMS - {
    "add_generation_prompt",
    "add_special_tokens",
    "chat_template",
    "continue_final_message",
    "documents",
    "guided_decoding_backend",
    "guided_whitespace_pattern",
    "include_reasoning",
    "include_stop_str_in_output",
    "kv_transfer_params",
    "length_penalty",
    "mm_processor_kwargs",
    "skip_special_tokens",
    "thinking_token_budget",
    "truncate_prompt_tokens",
    "use_beam_search",
}
"""Parameters of vLLM's engine, except parameters that only its server knows or that the gateway handles itself."""

_REMOVED_LINES: Final = ("x-anthropic-billing-header:*",)
"""Lines at the beginning of the system prompts of clients that are no use to a model. Claude Code sends accounting data
for Anthropic's servers in this one, in some versions with a nonce. Small models answer it if they read it last."""

_ARRAY_ITEMS: Final[frozenset[SchemaShim]] = frozenset({"array_items"})
"""OpenAI refuses a function with an array whose items have no schema. Other servers with its API do not check it, and
a walk through all schemas has its price."""

_LLAMA_SERVER_PROFILE = Profile(
    # The server separates thinking itself, unless its flags say otherwise.
    parsing_format="leading_think_tags",
    raw_text_field="reasoning_format",
    forced_tool="alone",
    thinking_switch="chat_template_kwargs",
    tool_names="any",
    extra_params=_COMMON_PARAMS
    | {"cache_prompt", "chat_template_kwargs", "grammar", "id_slot", "json_schema", "n_probs"},
)
"""llama.cpp's own server, https://github.com/ggml-org/llama.cpp/tree/master/tools/server"""

_PROFILES: Final[Mapping[ProviderType, Profile]] = {
    "openai": Profile(
        system_messages="keep",
        developer_role="developer",
        replay_reasoning="none",
        max_tokens_field="max_completion_tokens",
        schema_shims=_ARRAY_ITEMS,
        # The API refuses it without `store`, with which it would store completions that the gateway's client did not.
        refused_params=frozenset({"metadata"}),
    ),
    "openrouter": Profile(
        replay_reasoning="reasoning_details",
        thinking_switch="reasoning_enabled",
        effort_field="reasoning",
        cache_marks=_OPENROUTER_CACHE_MARKS,
        schema_shims=_ARRAY_ITEMS,
        extra_params=_OPENROUTER_PARAMS,
    ),
    "anthropic": Profile(
        # The API returns a summary of the thinking, not the thinking itself.
        reasoning_part="summary_text",
        replay_reasoning="none",
        max_thinking_tokens=16_384,
        cite_documents=True,
        tool_names="anthropic",
        relayed_history="by_model",
        block_binding=True,
        schema_shims=frozenset({"plain_patterns"}),
        extra_params=_ANTHROPIC_PARAMS,
    ),
    "gemini": Profile(
        # The API returns a summary of the thinking, not the thinking itself.
        reasoning_part="summary_text",
        tool_names="gemini",
        extra_params=_GEMINI_PARAMS,
    ),
    "ollama": Profile(replay_reasoning="thinking", tool_names="any", extra_params=_OLLAMA_PARAMS),
    "vllm": Profile(
        replay_reasoning="reasoning",
        tool_names="any",
        thinking_switch="chat_template_kwargs",
        extra_params=_VLLM_PARAMS,
    ),
    "openai_compatible": Profile(forced_tool="alone", extra_params=_COMMON_PARAMS | {"chat_template_kwargs"}),
    "llama_server": _LLAMA_SERVER_PROFILE,
    "harmony": Profile(extra_params=_COMMON_PARAMS | {"cache_prompt", "id_slot"}),
    "llamacpp": _LLAMA_SERVER_PROFILE,
    "vllm_inprocess": Profile(
        replay_reasoning="reasoning",
        thinking_switch="chat_template_kwargs",
        parsing_format="think_tags",
        tool_parser="hermes",
        tool_names="any",
        extra_params=_VLLM_ENGINE_PARAMS,
    ),
    "demo": replace(
        two_pass_profile(_LLAMA_SERVER_PROFILE), tool_parser="hermes", max_thinking_tokens=256, max_response_tokens=512
    ),
    "scripted": DEFAULT_PROFILE,
}

_UNCHANGED_PROMPT_TYPES: Final[frozenset[ProviderType]] = frozenset({"anthropic", "scripted"})
"""Types whose prompts keep `_REMOVED_LINES`: Anthropic's servers read them, and the scripted model has no cache that
they would spoil."""

PROFILES: Final[Mapping[ProviderType, Profile]] = {
    name: profile if name in _UNCHANGED_PROMPT_TYPES else replace(profile, removed_lines=_REMOVED_LINES)
    for name, profile in _PROFILES.items()
}


_FLAG_DEPENDENT_TYPES: Final[frozenset[ProviderType]] = frozenset({"vllm", "openai_compatible"})
"""Types of servers that separate thinking from the answer if their flags say so. No endpoint reports these flags."""


_TEMPLATE_TYPES: Final[frozenset[ProviderType]] = frozenset(
    {"openai_compatible", "openrouter", "ollama", "vllm", "llama_server", "llamacpp", "vllm_inprocess"}
)
"""Types of servers that write the prompt with the chat template of the model."""


_ADDED_FIELDS: Final = ("extra_params", "refused_params")


def build_profile(
    provider_type: ProviderType,
    overrides: Mapping[str, Any],
    family: ModelFamily | None = None,
    *,
    base_url: str | None = None,
) -> Profile:
    """Returns the type's profile with what is known about the model's family, and with one model's overrides.

    `base_url` is the server's address: what depends on a model's name does not at the vendor's own server.
    `extra_params` and `refused_params` are added to the type's; every other field replaces the type's. The family's
    `text` counts only where the text that reaches the gateway may not have been parsed.
    """
    profile = PROFILES[provider_type]
    if profile.relayed_history == "by_model" and _is_own_server(provider_type, base_url):
        profile = replace(profile, relayed_history="repair")
    added = {name: getattr(profile, name) | frozenset(overrides.get(name, ())) for name in _ADDED_FIELDS}
    if overrides.get("two_pass") == "on":
        profile = two_pass_profile(profile)
    fields = _family_fields(provider_type, family, two_pass=profile.two_pass == "on") if family is not None else {}
    return replace(profile, **{**fields, **overrides, **added})


def _is_own_server(provider_type: ProviderType, base_url: str | None) -> bool:
    """Whether an address is at the host of the type's own service, which every provider without an address has."""
    own_url = PROVIDER_DEFAULTS[provider_type].base_url
    return bool(base_url and own_url) and urlsplit(base_url).hostname == urlsplit(own_url).hostname


def _family_fields(provider_type: ProviderType, family: ModelFamily, *, two_pass: bool) -> dict[str, Any]:
    fields = {} if family.text is None else _text_fields(provider_type, family.text, two_pass=two_pass)
    return {**fields, **family.template} if provider_type in _TEMPLATE_TYPES else fields


def _text_fields(provider_type: ProviderType, text: RawTextFormat, *, two_pass: bool) -> dict[str, Any]:
    """Returns the profile fields for the text of a model.

    A prompt of token ids is answered with the model's raw text. A server with a chat API returns parsed calls, or
    refuses tools; whether it has separated the thinking is visible at the beginning of its text.
    """
    if provider_type in TOKENS_ONLY_TYPES:
        parser = text.tool_parser if text.vllm_parser is None else f"vllm:{text.vllm_parser}"
        return {"parsing_format": text.parsing_format, "tool_parser": parser}
    fields: dict[str, Any] = {"tool_parser": text.tool_parser} if two_pass else {}
    if provider_type in _FLAG_DEPENDENT_TYPES and text.parsing_format == "think_tags":
        fields["parsing_format"] = "leading_think_tags"
    return fields
