"""Finds keys of a model that have no effect. They are refused, because an operator who writes one expects an effect."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.config.model_rows import ModelRow
from gateway.config.yaml_file import Problem
from providers.config import PROVIDER_DEFAULTS, TOKEN_PROMPT_TYPES, TOKENS_ONLY_TYPES, ProviderType
from translation.representation.json_types import mapping_or_empty

_TWO_PASS_KEYS: Final = ("think_tag", "max_thinking_tokens", "max_response_tokens", "bridge", "effort_budgets")
"""The keys that two passes use."""

_KEYS_WITHOUT_TWO_PASS: Final[Mapping[str, frozenset[str]]] = {
    "anthropic": frozenset({"max_thinking_tokens", "max_response_tokens", "effort_budgets"}),
    "gemini": frozenset({"effort_budgets"}),
    # If the template opens the thinking, these keys end it before an answer that must fit a format.
    "vllm_inprocess": frozenset({"max_response_tokens", "bridge"}),
}
"""Provider type -> the keys of `_TWO_PASS_KEYS` that it uses without two passes."""

_ENGINE_BUDGET_KEYS: Final = frozenset({"max_thinking_tokens", "max_response_tokens", "effort_budgets"})
"""The keys of `_TWO_PASS_KEYS` that are used if vLLM enforces the budget."""

_TEXT_CALL_KEYS: Final = (("tool_parser", "openai"), ("text_tool_calls", "none"), ("tool_validation", None))
"""The keys about calls in the text, each with the value that means: there are no such calls."""


def check_unused_keys(rows: Sequence[ModelRow], tree: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields one problem per key without an effect. `tree` is the whole, unvalidated configuration, `rows` are the
    upstreams of its models."""
    providers = mapping_or_empty(tree.get("providers"))
    for row in rows:
        provider_name = row.values.get("provider")
        provider = mapping_or_empty(providers.get(provider_name)) if isinstance(provider_name, str) else {}
        kind = next((kind for kind in PROVIDER_DEFAULTS if kind == provider.get("type")), None)
        if kind is not None:
            yield from _check_two_pass_keys(kind, row)
            yield from _check_text_call_keys(kind, provider, row)


def _check_two_pass_keys(kind: ProviderType, row: ModelRow) -> Iterator[Problem]:
    model = row.values
    two_pass = model.get("two_pass")
    if isinstance(two_pass, dict) or two_pass in (True, "on"):
        return  # all keys are used, or the two passes are refused elsewhere
    unused = [key for key in _TWO_PASS_KEYS if key in model and key not in _KEYS_WITHOUT_TWO_PASS.get(kind, ())]
    for key in unused:
        if kind not in TOKEN_PROMPT_TYPES:
            yield Problem(row.locate(key), f"{kind} does not use it: leave it out")
        elif two_pass is None:
            message = (
                "it has no effect without two passes: write two_pass: true, or two_pass: false if only requests to "
                "/generate ask for them"
            )
            yield Problem(row.locate(key), message)
        elif two_pass == "engine" and key not in _ENGINE_BUDGET_KEYS:
            yield Problem(row.locate(key), "vLLM enforces the budget itself and does not use it: leave it out")


def _check_text_call_keys(kind: ProviderType, provider: Mapping[str, Any], row: ModelRow) -> Iterator[Problem]:
    model = row.values
    if not _has_text_calls(kind, provider):
        for key, neutral_value in _TEXT_CALL_KEYS:
            if model.get(key) not in (None, neutral_value):
                yield Problem(row.locate(key), f"{kind} never returns calls as text: leave it out")
    if model.get("single_tool_block") is True and not _stops_after_block(kind, model):
        message = "it has no effect unless tools are written into the prompt: write text_tool_calls, or leave it out"
        yield Problem(row.locate("single_tool_block"), message)


def _has_text_calls(kind: ProviderType, provider: Mapping[str, Any]) -> bool:
    """Returns whether requests may use chat, the only dialect whose texts are parsed for calls, or token prompts."""
    dialects = provider.get("dialects")
    return kind in TOKEN_PROMPT_TYPES or "chat" in (
        dialects if isinstance(dialects, list) else PROVIDER_DEFAULTS[kind].dialects
    )


def _stops_after_block(kind: ProviderType, model: Mapping[str, Any]) -> bool:
    """Returns whether the gateway makes the model, or its engine, end a reply after its first block of calls."""
    in_tokens = kind in TOKENS_ONLY_TYPES or (
        kind in TOKEN_PROMPT_TYPES and model.get("two_pass") not in (None, "engine")
    )
    return in_tokens or model.get("text_tool_calls") not in (None, "none")
