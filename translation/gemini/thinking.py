"""How much a model is to think: efforts and budgets as Gemini's families take them."""

from typing import Any, Final

from translation.errors import Unrepresentable
from translation.gemini.families import Family
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_BUDGETS: Final = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576}
"""Effort -> tokens, as Gemini's chat endpoint has it; efforts above are as many as the family takes.
https://ai.google.dev/gemini-api/docs/openai#thinking"""

_AS_IT_LIKES: Final = -1


def thinking_config(turn: Turn, family: Family, profile: Profile, losses: list[Loss]) -> Json:
    """The `thinkingConfig`, empty where there is none. Thoughts are always asked for: they are thought either way.

    A budget in the request goes before its effort, and `thinking: false` before both.
    """
    if profile.thinking_form != "by_model":
        family = family.told(profile.thinking_form)
    asked = turn.reasoning or {}
    effort, budget = asked.get("effort"), asked.get("max_tokens")
    if turn.thinking is False:
        effort, budget = "none", None
    if effort is not None and effort not in _EFFORTS and effort not in profile.effort_budgets:
        raise Unrepresentable(f"this model knows no effort {effort!r}", param="reasoning.effort")
    if family.thinks and asked.get("summary") not in (None, "auto"):
        losses.append(Loss("reasoning.summary", "as auto"))
    if not family.thinks:
        if turn.thinking or budget is not None or effort not in (None, "none"):
            losses.append(Loss("thinking" if turn.thinking else "reasoning", "dropped"))
        return {}
    if budget is not None:
        return _budget(_fitting(budget, family, losses))
    if effort is None:
        return _budget(_AS_IT_LIKES) if turn.thinking and not family.levels else {"includeThoughts": True}
    if effort in profile.effort_budgets:
        return _budget(profile.effort_budgets[effort])
    param, said = ("thinking", "false") if turn.thinking is False else ("reasoning.effort", effort)
    if family.levels:
        level = _level(effort, family)
        losses += [Loss(param, f"{said} as {level}")] if level != effort else []
        return {"thinkingLevel": level, "includeThoughts": True}
    if effort == "none" and family.least:
        losses.append(Loss(param, f"{said} as {family.least} tokens"))
    return _budget(family.least if effort == "none" else _BUDGETS.get(effort, family.most))


def _budget(tokens: int) -> Json:
    return {"thinkingBudget": tokens} | ({"includeThoughts": True} if tokens else {})


def _fitting(budget: Any, family: Family, losses: list[Loss]) -> int:
    # Families that have levels still take a budget, and say nothing of its bounds.
    fitting = budget if family.levels else min(max(budget, family.least), family.most)
    if fitting != budget:
        losses.append(Loss("reasoning.max_tokens", f"as {fitting}"))
    return int(fitting)


def _level(effort: str, family: Family) -> str:
    """The effort itself, or the next level above it; the highest for efforts above all."""
    above = [level for level in _EFFORTS[_EFFORTS.index(effort) :] if level in family.levels]
    return above[0] if above else family.levels[-1]
