"""Keys of a model that nothing would read. Whoever writes one expects something of it, so it is refused."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.config.yaml_file import Problem, ValuePath
from providers.config import PROVIDER_DEFAULTS, TOKEN_PROMPT_TYPES, TOKENS_ONLY_TYPES, ProviderType
from translation.representation.json_types import mapping_or_empty

_TWO_PASS_KEYS: Final = ("think_tag", "max_thinking_tokens", "max_response_tokens", "bridge", "effort_budgets")
"""What two passes read."""

_KEYS_WITHOUT_TWO_PASS: Final[Mapping[str, frozenset[str]]] = {
    "anthropic": frozenset({"max_thinking_tokens", "max_response_tokens", "effort_budgets"}),
    "gemini": frozenset({"effort_budgets"}),
    # A thought that its template opens is ended before an answer that is held to a form.
    "vllm_inprocess": frozenset({"max_response_tokens", "bridge"}),
}
"""Type -> what it reads of them without two passes."""

_ENGINE_BUDGET_KEYS: Final = frozenset({"max_thinking_tokens", "max_response_tokens", "effort_budgets"})
"""What is read of them where vLLM keeps the budget."""

_TEXT_CALL_KEYS: Final = (("tool_parser", "openai"), ("text_tool_calls", "none"), ("tool_validation", None))
"""What is said of calls that come as text, and how it is said that none do."""


def check_unused_keys(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """One problem for each. `tree`: the whole configuration, in which anything may be wrong."""
    providers = mapping_or_empty(tree.get("providers"))
    for name, given in mapping_or_empty(tree.get("models")).items():
        model = mapping_or_empty(given)
        provider = model.get("provider")
        served = mapping_or_empty(providers.get(provider)) if isinstance(provider, str) else {}
        kind = next((kind for kind in PROVIDER_DEFAULTS if kind == served.get("type")), None)
        if kind is not None:
            yield from _check_two_pass_keys(kind, model, ("models", name))
            yield from _check_text_call_keys(kind, served, model, ("models", name))


def _check_two_pass_keys(kind: ProviderType, model: Mapping[str, Any], path: ValuePath) -> Iterator[Problem]:
    two_pass = model.get("two_pass")
    if isinstance(two_pass, dict) or two_pass in (True, "on"):
        return  # all are read, or the two passes are refused
    idle = [key for key in _TWO_PASS_KEYS if key in model and key not in _KEYS_WITHOUT_TWO_PASS.get(kind, ())]
    for key in idle:
        if kind not in TOKEN_PROMPT_TYPES:
            yield Problem((*path, key), f"{kind} does not read it: leave it out")
        elif two_pass is None:
            message = (
                "nothing reads it without two passes: write two_pass: true, or false if only /generate asks for them"
            )
            yield Problem((*path, key), message)
        elif two_pass == "engine" and key not in _ENGINE_BUDGET_KEYS:
            yield Problem((*path, key), "vLLM keeps the budget itself and does not read it: leave it out")


def _check_text_call_keys(
    kind: ProviderType, served: Mapping[str, Any], model: Mapping[str, Any], path: ValuePath
) -> Iterator[Problem]:
    if not _has_text_calls(kind, served):
        for key, nothing in _TEXT_CALL_KEYS:
            if model.get(key) not in (None, nothing):
                yield Problem((*path, key), f"calls of {kind} never come as text: leave it out")
    if model.get("single_tool_block") is True and not _stops_after_block(kind, model):
        message = "only calls that are asked for in text end with their block: write text_tool_calls, or leave it out"
        yield Problem((*path, "single_tool_block"), message)


def _has_text_calls(kind: ProviderType, served: Mapping[str, Any]) -> bool:
    """Whether it may be asked in chat, the one wire format whose texts are looked through, or in tokens."""
    dialects = served.get("dialects")
    return kind in TOKEN_PROMPT_TYPES or "chat" in (
        dialects if isinstance(dialects, list) else PROVIDER_DEFAULTS[kind].dialects
    )


def _stops_after_block(kind: ProviderType, model: Mapping[str, Any]) -> bool:
    """Whether the gateway tells the model, or its engine, to end an answer with its first block."""
    in_tokens = kind in TOKENS_ONLY_TYPES or (
        kind in TOKEN_PROMPT_TYPES and model.get("two_pass") not in (None, "engine")
    )
    return in_tokens or model.get("text_tool_calls") not in (None, "none")
