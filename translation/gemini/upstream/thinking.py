"""Lowers the reasoning parameters to Gemini's `thinkingConfig`, by levels or by a number of tokens."""

from typing import Any, Final

from translation.errors import Unrepresentable
from translation.gemini.upstream.families import GeminiFamily
from translation.lowering.reasoning import find_reasoning_losses
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_EFFORT_BUDGETS: Final = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Effort -> tokens, as Gemini's chat endpoint converts them. Higher efforts become the family's largest budget.
https://ai.google.dev/gemini-api/docs/openai#thinking"""

_DYNAMIC_BUDGET: Final = -1


def lower_thinking(turn: Turn, family: GeminiFamily, profile: Profile, losses: list[Loss]) -> Json:
    """Returns the `thinkingConfig`, empty if there is none to send. Losses are appended to `losses`.

    Thoughts are always requested while the model thinks, because it thinks either way. A budget in the request takes
    precedence over its effort, and `thinking: false` over both. Raises Unrepresentable for an unknown effort.
    """
    if profile.thinking_form != "by_model":
        family = family.with_thinking_form(profile.thinking_form)
    reasoning = turn.reasoning or {}
    effort, budget = reasoning.get("effort"), reasoning.get("max_tokens")
    if turn.thinking is False:
        effort, budget = "none", None
    if effort is not None and effort not in _EFFORTS and effort not in profile.effort_budgets:
        raise Unrepresentable(f"this model has no reasoning effort {effort!r}", param="reasoning.effort")
    if family.thinks:
        losses += find_reasoning_losses({"summary": reasoning.get("summary")})
    if not family.thinks:
        if turn.thinking or budget is not None or effort not in (None, "none"):
            losses.append(Loss("thinking" if turn.thinking else "reasoning", "dropped"))
        return {}
    if budget is not None:
        return _budget_config(_clamp_budget(budget, family, losses))
    # The model decides how long it thinks. Models with levels have no budget that says so.
    if effort is None:
        return _budget_config(_DYNAMIC_BUDGET) if turn.thinking and not family.levels else {"includeThoughts": True}
    if effort in profile.effort_budgets:
        return _budget_config(profile.effort_budgets[effort])
    param, original = ("thinking", "false") if turn.thinking is False else ("reasoning.effort", effort)
    if family.levels:
        level = _level_for_effort(effort, family)
        losses += [Loss(param, f"{original} as {level}")] if level != effort else []
        return {"thinkingLevel": level, "includeThoughts": True}
    if effort == "none" and family.min_budget:
        losses.append(Loss(param, f"{original} as {family.min_budget} tokens"))
    return _budget_config(family.min_budget if effort == "none" else _EFFORT_BUDGETS.get(effort, family.max_budget))


def _budget_config(tokens: int) -> Json:
    return {"thinkingBudget": tokens} | ({"includeThoughts": True} if tokens else {})


def _clamp_budget(budget: Any, family: GeminiFamily, losses: list[Loss]) -> int:
    # Families with levels accept a budget too, and the API does not document its limits.
    clamped = budget if family.levels else min(max(budget, family.min_budget), family.max_budget)
    if 0 < clamped < family.smallest_thinking and not family.levels:
        clamped = family.smallest_thinking
    if clamped != budget:
        losses.append(Loss("reasoning.max_tokens", f"as {clamped}"))
    return int(clamped)


def _level_for_effort(effort: str, family: GeminiFamily) -> str:
    """Returns the effort itself, or the next level above it, or the highest level for an effort above all."""
    candidates = [level for level in _EFFORTS[_EFFORTS.index(effort) :] if level in family.levels]
    return candidates[0] if candidates else family.levels[-1]
