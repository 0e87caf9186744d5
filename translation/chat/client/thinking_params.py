"""Lifts what a chat request says about thinking.

OpenAI has `reasoning_effort`, OpenRouter has the object `reasoning`, and `thinking` is the gateway's own switch, or the
object by which DeepSeek, Kimi and GLM switch it.
"""

from collections.abc import Mapping
from typing import Any, Final

from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.request_defaults import read_switch

THINKING_PARAMS: Final = frozenset({"thinking", "reasoning", "reasoning_effort"})

LIFTED_REASONING: Final = ("effort", "max_tokens", "summary")
"""The keys of `reasoning` that have the same name in a turn."""


def lift_thinking(params: Mapping[str, Any], losses: list[Loss]) -> tuple[bool | None, Json | None]:
    """Returns a turn's (thinking, reasoning) from valid parameters that are not null.

    What `reasoning` says differently than `thinking` and `reasoning_effort` is a loss, and so is a type of `thinking`
    that is neither on nor off. Losses are appended to `losses`.
    """
    options = {key: value for key, value in params.get("reasoning", {}).items() if value is not None}
    reasoning = {key: options[key] for key in LIFTED_REASONING if key in options}
    enabled = options.get("enabled")
    value = params.get("thinking")
    thinking = read_switch(value)
    if isinstance(value, dict):
        _lift_thinking_object(value, thinking, reasoning, losses)
    if thinking is None:
        thinking = enabled
    elif enabled not in (None, thinking):
        losses.append(Loss("reasoning.enabled", "dropped"))
    if (effort := params.get("reasoning_effort")) is not None:
        if reasoning.get("effort", effort) != effort:
            losses.append(Loss("reasoning.effort", "dropped"))
        reasoning["effort"] = effort
    return thinking, reasoning or None


def _lift_thinking_object(value: Json, thinking: bool | None, reasoning: Json, losses: list[Loss]) -> None:
    """Adds the budget in the object `thinking` to `reasoning`, in place, unless `reasoning` has one."""
    if thinking is None:
        losses.append(Loss("thinking.type", "dropped"))
    budget = value.get("budget_tokens")
    if budget is None:
        return
    if thinking is False or reasoning.setdefault("max_tokens", budget) != budget:
        losses.append(Loss("thinking.budget_tokens", "dropped"))
