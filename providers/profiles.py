"""The default profile of each provider type, and of model families. A model's own settings in the configuration
override them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from providers.config import ProviderType
from translation.representation.profile import DEFAULT_PROFILE, Profile, two_pass_profile

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
    "include_reasoning",
    "session_id",
    "trace",
}
"""https://openrouter.ai/docs/api-reference/parameters"""

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
"""Parameters of vLLM's engine. Those that only its server knows, and those that the gateway handles itself, are left
out."""

_LLAMA_SERVER_PROFILE = Profile(
    forced_tool="alone",
    thinking_switch="chat_template_kwargs",
    extra_params=_COMMON_PARAMS
    | {"cache_prompt", "chat_template_kwargs", "grammar", "id_slot", "json_schema", "n_probs"},
)
"""llama.cpp's own server, https://github.com/ggml-org/llama.cpp/tree/master/tools/server"""

PROFILES: dict[ProviderType, Profile] = {
    "openai": Profile(
        system_messages="keep",
        developer_role="developer",
        replay_reasoning="none",
        max_tokens_field="max_completion_tokens",
    ),
    "openrouter": Profile(
        replay_reasoning="reasoning_details",
        thinking_switch="reasoning_enabled",
        effort_field="reasoning",
        extra_params=_OPENROUTER_PARAMS,
    ),
    "anthropic": Profile(
        # The API returns a summary of the thinking, not the thinking itself.
        reasoning_part="summary_text",
        replay_reasoning="none",
        max_thinking_tokens=16_384,
        cite_documents=True,
        extra_params=_ANTHROPIC_PARAMS,
    ),
    "gemini": Profile(
        # The API returns a summary of the thinking, not the thinking itself.
        reasoning_part="summary_text",
        extra_params=_GEMINI_PARAMS,
    ),
    "ollama": Profile(replay_reasoning="thinking", extra_params=_OLLAMA_PARAMS),
    "vllm": Profile(
        replay_reasoning="reasoning",
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
        extra_params=_VLLM_ENGINE_PARAMS,
    ),
    "scripted": DEFAULT_PROFILE,
}


class ModelFamily(NamedTuple):
    """Profile fields that one family of models needs, whatever type of upstream serves it. `reason` says why."""

    reason: str
    fields: Mapping[str, Any]


_GEMINI_SCHEMA_SHIMS: Final = frozenset({"no_empty_required", "no_schema_key", "signed_formats"})

MODEL_FAMILIES: Final[Mapping[str, ModelFamily]] = {
    "deepseek": ModelFamily(
        "The API refuses a message with calls but without `reasoning_content`, and reads past reasoning.",
        {"replay_reasoning": "reasoning_content", "empty_reasoning": True},
    ),
    "kimi": ModelFamily(
        "Like DeepSeek's API.",
        {"replay_reasoning": "reasoning_content", "empty_reasoning": True},
    ),
    "gemini_chat": ModelFamily(
        "Gemini behind a chat API: past calls need a signature, which chat lacks, and only some schema keywords work.",
        {"call_signatures": "placeholder", "schema_shims": _GEMINI_SCHEMA_SHIMS},
    ),
    "stateless_responses": ModelFamily(
        "A Responses server without state, which refuses the ids of items.",
        {"replay_ids": "drop"},
    ),
}
"""Name of a profile -> the reason for it, and the `Profile` fields that it sets. The operator's own settings override
them."""


def profile_for(provider_type: ProviderType, overrides: Mapping[str, Any]) -> Profile:
    """Returns the type's profile with one model's overrides. `extra_params` are added to the type's; every other field
    replaces the type's."""
    profile = PROFILES[provider_type]
    extra_params = profile.extra_params | frozenset(overrides.get("extra_params", ()))
    if overrides.get("two_pass") == "on":
        profile = two_pass_profile(profile)
    return replace(profile, **{**overrides, "extra_params": extra_params})
