"""How much a turn may think."""

from fractions import Fraction
from typing import Final

from translation.representation.profile import Profile
from translation.representation.turn import Turn

_SHARES: Final = {"minimal": Fraction(1, 16), "low": Fraction(1, 4), "medium": Fraction(1, 2)}
"""Effort -> its share of the model's `max_thinking_tokens`; any other, `high` and above, has all of it."""

_FAIR_SHARE: Final = 4
"""One in so many tokens of what thinking and answer have together is kept for the answer."""

_ENOUGH: Final = 256
"""More than this is not kept."""


def thinks(turn: Turn) -> bool:
    """Whether the turn asks for, or leaves to the model, any thinking at all."""
    if turn.thinking is False or (turn.reasoning or {}).get("effort") == "none":
        return False
    told = turn.extra.get("chat_template_kwargs")
    return turn.thinking is True or not isinstance(told, dict) or told.get("enable_thinking") is not False


def budget_of(turn: Turn, profile: Profile) -> int:
    """Tokens for the thinking of a turn that thinks. The first that says something wins: the request's
    `reasoning.max_tokens`, its `reasoning.effort`, the model's `max_thinking_tokens`."""
    asked = turn.reasoning or {}
    if (tokens := asked.get("max_tokens")) is not None:
        return int(tokens)
    effort = asked.get("effort") or ""
    if effort in profile.effort_budgets:
        return profile.effort_budgets[effort]
    most = profile.max_thinking_tokens
    return min(most, max(1, int(most * _SHARES.get(effort, Fraction(1)))))


def fitted(budget: int, *, room: int | None, answer: int | None) -> int:
    """The budget, as far as it leaves the answer its share of what both have together.

    `room`: tokens for both, `answer`: the most the answer may have; None: nobody sets a limit.
    """
    if room is None:
        return budget
    kept = min(_ENOUGH, room // _FAIR_SHARE) if answer is None else min(_ENOUGH, room // _FAIR_SHARE, answer)
    return max(0, min(budget, room - max(1, kept)))
