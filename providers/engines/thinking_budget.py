"""The thinking budget of a turn, in tokens."""

from fractions import Fraction
from typing import Final

from translation.representation.profile import Profile
from translation.representation.turn import Turn

_EFFORT_SHARES: Final = {"minimal": Fraction(1, 16), "low": Fraction(1, 4), "medium": Fraction(1, 2)}
"""Effort -> its share of the model's `max_thinking_tokens`. Any other effort (`high` and above) gets all of it."""

_ANSWER_DIVISOR: Final = 4
"""A quarter of the tokens that thinking and answer have together is reserved for the answer."""

_MAX_ANSWER_RESERVE: Final = 256
"""The most tokens that are reserved for the answer."""


def resolve_thinking_budget(turn: Turn, profile: Profile) -> int:
    """Returns the thinking budget of a turn that may think, in tokens. The first of these that is set decides: the
    request's `reasoning.max_tokens`, its `reasoning.effort`, the model's `max_thinking_tokens`."""
    reasoning = turn.reasoning or {}
    if (tokens := reasoning.get("max_tokens")) is not None:
        return int(tokens)
    effort = reasoning.get("effort") or ""
    if effort in profile.effort_budgets:
        return profile.effort_budgets[effort]
    max_tokens = profile.max_thinking_tokens
    return min(max_tokens, max(1, int(max_tokens * _EFFORT_SHARES.get(effort, Fraction(1)))))


def fit_budget(budget: int, *, room: int | None, max_answer_tokens: int | None) -> int:
    """Returns the budget, reduced so that the answer keeps its share of the tokens.

    `room` is the number of tokens for thinking and answer together, `max_answer_tokens` the limit of the answer. None:
    there is no limit.
    """
    if room is None:
        return budget
    reserved = (
        min(_MAX_ANSWER_RESERVE, room // _ANSWER_DIVISOR)
        if max_answer_tokens is None
        else min(_MAX_ANSWER_RESERVE, room // _ANSWER_DIVISOR, max_answer_tokens)
    )
    return max(0, min(budget, room - max(1, reserved)))
