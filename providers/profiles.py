"""What each kind of upstream is used to; what a model says in the config goes over it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from providers.config import ProviderType
from translation.representation.profile import DEFAULT_PROFILE, Profile, two_pass_profile

_COMMON_PARAMS = frozenset({"top_k", "min_p", "repetition_penalty"})
"""Outside OpenAI's APIs, and understood by every open server."""

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
"""vLLM's `ChatCompletionRequest`, without what asks for reply fields that a translated reply has no place for
(`prompt_logprobs`, `return_token_ids`): those are reported as lost."""

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
"""What is its server's and not its engine's, or what the gateway itself sees to, is left out."""

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
        # What the API shows of the thinking is a summary of it.
        reasoning_part="summary_text",
        replay_reasoning="none",
        max_thinking_tokens=16_384,
        cite_documents=True,
        extra_params=_ANTHROPIC_PARAMS,
    ),
    "gemini": Profile(
        # What the API shows of the thoughts is a summary of them.
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
    """What one family of models wants said differently, on whichever type of upstream serves it."""

    reason: str
    fields: Mapping[str, Any]


_GEMINI_SCHEMA_SHIMS: Final = frozenset({"no_empty_required", "no_schema_key", "signed_formats"})

MODEL_FAMILIES: Final[Mapping[str, ModelFamily]] = {
    "deepseek": ModelFamily(
        "The API refuses a message with calls that has no `reasoning_content`, and reads back what there was.",
        {"replay_reasoning": "reasoning_content", "empty_reasoning": True},
    ),
    "kimi": ModelFamily(
        "As DeepSeek's.",
        {"replay_reasoning": "reasoning_content", "empty_reasoning": True},
    ),
    "gemini_chat": ModelFamily(
        "Gemini behind a chat API: past calls need a signature, which chat does not carry, and schemas are a subset.",
        {"call_signatures": "placeholder", "schema_shims": _GEMINI_SCHEMA_SHIMS},
    ),
    "stateless_responses": ModelFamily(
        "A Responses server that keeps nothing, knows no item by its id and refuses ids.",
        {"replay_ids": "drop"},
    ),
}
"""Name of a profile -> why, and the fields of `Profile` it sets. The operator's own fields go before them."""


def profile_for(provider_type: ProviderType, overrides: Mapping[str, Any]) -> Profile:
    """The kind's profile with one model's own values. `extra_params` adds to the kind's; everything else replaces."""
    profile = PROFILES[provider_type]
    extra_params = profile.extra_params | frozenset(overrides.get("extra_params", ()))
    if overrides.get("two_pass") == "on":
        profile = two_pass_profile(profile)
    return replace(profile, **{**overrides, "extra_params": extra_params})
