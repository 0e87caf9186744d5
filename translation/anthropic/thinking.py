"""How much a model is told to think, in either of the API's two forms.

`adaptive`  the model decides how much, by `output_config.effort`; models since Claude 4.6.
`budget`    it is given a number of tokens, which count towards `max_tokens`; models before.
"""

import re
from dataclasses import dataclass
from typing import Final

from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

MAX_TOKENS: Final = 32_000
"""What an answer may take where nobody says: as much as every model since Claude 3.7 can write."""

_LEAST_BUDGET: Final = 1024
"""The API refuses less."""

_SHARES: Final = {"minimal": 1 / 16, "low": 1 / 4, "medium": 1 / 2}
"""`reasoning.effort` -> its share of `max_thinking_tokens`; all others have all of it."""

_EFFORTS: Final = {"minimal": "low"}
"""Efforts under another name; all others have their own."""

_OLDER: Final = re.compile(
    r"claude-(?:instant|v?[123](?!\d)|(?:opus|sonnet|haiku)-4(?:-[0-5](?!\d))?(?!-\d{1,2}(?!\d)|\d))"
)
"""Claude 1 to 4.5, by all of the names they go by here and at other hosts. No newer model will ever match."""


_VERSION: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
"""Both numbers of a model's version, as far as its name has them."""

_FIRST_UNSAMPLED: Final = (4, 7)


def is_older(model: str) -> bool:
    """Whether a model is older than adaptive thinking."""
    return _OLDER.search(model) is not None


def is_budgeted(model: str, profile: Profile) -> bool:
    """Whether this model is told a number of tokens."""
    return is_older(model) if profile.thinking_form == "by_model" else profile.thinking_form == "budget"


def is_sampled(model: str, profile: Profile) -> bool:
    """Whether this model takes `temperature`, `top_p` and `top_k`: since Claude 4.7 the API refuses them. One that is
    told a budget is older, whatever it is called."""
    version = _VERSION.search(model)
    if version is None or is_budgeted(model, profile):
        return True
    return (int(version[1]), int(version[2] or 0)) < _FIRST_UNSAMPLED


@dataclass(frozen=True, slots=True)
class Told:
    """`body` is what the request says of thinking; `thinks` whether it asks for any."""

    body: Json
    thinks: bool
    max_tokens: int


def lower_thinking(turn: Turn, profile: Profile, losses: list[Loss], *, barred: str | None) -> Told:
    """What to say of thinking, and how long the reply may be. `barred`: why the API would refuse thinking here."""
    asked = {key: value for key, value in (turn.reasoning or {}).items() if value is not None}
    summary, effort, budget = asked.get("summary"), asked.get("effort"), asked.get("max_tokens")
    if turn.thinking is False or effort == "none":
        return Told({"thinking": {"type": "disabled"}}, False, _length(turn, profile))
    if turn.thinking is None and effort is None and budget is None:
        if summary:
            losses.append(Loss("reasoning.summary", "dropped"))
        return Told({}, False, _length(turn, profile))
    if is_budgeted(turn.model, profile):
        return _budgeted(turn, profile, losses, budget or _share(effort, profile), barred)
    body: Json = {}
    if effort is not None:
        body["output_config"] = {"effort": _EFFORTS.get(effort, effort)}
        if effort in _EFFORTS:
            losses.append(Loss("reasoning.effort", f"{effort} as {_EFFORTS[effort]}"))
    if budget is not None:
        losses.append(Loss("reasoning.max_tokens", "dropped"))
    if barred:
        losses.append(Loss("reasoning", barred))
        return Told(body, False, _length(turn, profile))
    # What is thought is left out by default, but for its signature.
    body["thinking"] = {"type": "adaptive", "display": "summarized"}
    return Told(body, True, turn.max_output_tokens or MAX_TOKENS)


def _share(effort: str | None, profile: Profile) -> int:
    effort = effort or ""
    share = int(profile.max_thinking_tokens * _SHARES.get(effort, 1))
    return profile.effort_budgets.get(effort, share)


def _budgeted(turn: Turn, profile: Profile, losses: list[Loss], wanted: int, barred: str | None) -> Told:
    budget = max(wanted, _LEAST_BUDGET)
    if (limit := turn.max_output_tokens) is not None:
        budget = min(budget, limit - max(limit // 4, 1))  # a quarter is left for the answer
    elif profile.max_response_tokens is not None:
        limit = budget + profile.max_response_tokens
    else:
        limit = max(MAX_TOKENS, budget + MAX_TOKENS // 4)
    if not barred and budget < _LEAST_BUDGET:
        barred = "no room for it"
    if barred:
        losses.append(Loss("reasoning", barred))
        return Told({}, False, _length(turn, profile))
    if budget != wanted:
        losses.append(Loss("reasoning", f"{budget} tokens"))
    return Told({"thinking": {"type": "enabled", "budget_tokens": budget}}, True, limit)


def _length(turn: Turn, profile: Profile) -> int:
    """Of a reply that is all answer."""
    return turn.max_output_tokens or profile.max_response_tokens or MAX_TOKENS
