"""Keys of a model that nothing would read. Whoever writes one expects something of it, so it is refused."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.config.yaml_file import Problem, ValuePath
from providers.config import CONTINUING, KINDS, TOKENS_ONLY, ProviderType
from translation.representation.json_types import mapping_in

_PASSES: Final = ("think_tag", "max_thinking_tokens", "max_response_tokens", "bridge", "effort_budgets")
"""What two passes read."""

_READ_ANYWAY: Final[Mapping[str, frozenset[str]]] = {
    "anthropic": frozenset({"max_thinking_tokens", "max_response_tokens", "effort_budgets"}),
    "gemini": frozenset({"effort_budgets"}),
    # A thought that its template opens is ended before an answer that is held to a form.
    "vllm_inprocess": frozenset({"max_response_tokens", "bridge"}),
}
"""Type -> what it reads of them without two passes."""

_OF_ENGINES: Final = frozenset({"max_thinking_tokens", "max_response_tokens", "effort_budgets"})
"""What is read of them where vLLM keeps the budget."""

_OF_TEXT: Final = (("tool_parser", "openai"), ("text_tool_calls", "none"), ("tool_validation", None))
"""What is said of calls that come as text, and how it is said that none do."""


def idle_keys(tree: Mapping[str, Any]) -> Iterator[Problem]:
    """One problem for each. `tree`: the whole configuration, in which anything may be wrong."""
    providers = mapping_in(tree.get("providers"))
    for name, given in mapping_in(tree.get("models")).items():
        model = mapping_in(given)
        provider = model.get("provider")
        served = mapping_in(providers.get(provider)) if isinstance(provider, str) else {}
        kind = next((kind for kind in KINDS if kind == served.get("type")), None)
        if kind is not None:
            yield from _of_passes(kind, model, ("models", name))
            yield from _of_text(kind, served, model, ("models", name))


def _of_passes(kind: ProviderType, model: Mapping[str, Any], at: ValuePath) -> Iterator[Problem]:
    asked = model.get("two_pass")
    if isinstance(asked, dict) or asked in (True, "on"):
        return  # all are read, or the two passes are refused
    idle = [key for key in _PASSES if key in model and key not in _READ_ANYWAY.get(kind, ())]
    for key in idle:
        if kind not in CONTINUING:
            yield Problem((*at, key), f"{kind} does not read it: leave it out")
        elif asked is None:
            told = "nothing reads it without two passes: write two_pass: true, or false if only /generate asks for them"
            yield Problem((*at, key), told)
        elif asked == "engine" and key not in _OF_ENGINES:
            yield Problem((*at, key), "vLLM keeps the budget itself and does not read it: leave it out")


def _of_text(
    kind: ProviderType, served: Mapping[str, Any], model: Mapping[str, Any], at: ValuePath
) -> Iterator[Problem]:
    if not _has_text_calls(kind, served):
        for key, nothing in _OF_TEXT:
            if model.get(key) not in (None, nothing):
                yield Problem((*at, key), f"calls of {kind} never come as text: leave it out")
    if model.get("single_tool_block") is True and not _ends_blocks(kind, model):
        told = "only calls that are asked for in text end with their block: write text_tool_calls, or leave it out"
        yield Problem((*at, "single_tool_block"), told)


def _has_text_calls(kind: ProviderType, served: Mapping[str, Any]) -> bool:
    """Whether it may be asked in chat, the one wire format whose texts are looked through, or in tokens."""
    dialects = served.get("dialects")
    return kind in CONTINUING or "chat" in (dialects if isinstance(dialects, list) else KINDS[kind].dialects)


def _ends_blocks(kind: ProviderType, model: Mapping[str, Any]) -> bool:
    """Whether the gateway tells the model, or its engine, to end an answer with its first block."""
    in_tokens = kind in TOKENS_ONLY or (kind in CONTINUING and model.get("two_pass") not in (None, "engine"))
    return in_tokens or model.get("text_tool_calls") not in (None, "none")
