"""Lowers the reasoning parameters to one of the API's two forms, and sets `max_tokens`.

`adaptive`  the model decides how much to think, by `output_config.effort`; models since Claude 4.6.
`budget`    the request sets a number of tokens, which count towards `max_tokens`; models before.
"""

import re
from dataclasses import dataclass
from typing import Final

from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

DEFAULT_MAX_TOKENS: Final = 32_000
"""`max_tokens` if nothing sets it. Every model since Claude 3.7 can write that many."""

_MIN_BUDGET: Final = 1024
"""The smallest budget that the API accepts, in tokens."""

_BUDGET_SHARES: Final = {"minimal": 1 / 16, "low": 1 / 4, "medium": 1 / 2}
"""`reasoning.effort` -> its share of `max_thinking_tokens`. An effort that is not listed gets all of it."""

_EFFORT_ALIASES: Final = {"minimal": "low"}
"""`reasoning.effort` -> the API's name, where it differs."""

_PRE_ADAPTIVE_PATTERN: Final = re.compile(
    r"claude-(?:instant|v?[123](?!\d)|(?:opus|sonnet|haiku)-4(?:[-.][0-5](?!\d))?(?![-.]\d{1,2}(?!\d)|\d))"
)
"""Matches Claude 1 to 4.5, by all their names at Anthropic and at other hosts, and no newer model."""


_VERSION_PATTERN: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
"""Finds the numbers of a model's version. The name may have one, two or none."""

_FIRST_WITHOUT_SAMPLING: Final = (4, 7)

_FIRST_WITH_XHIGH: Final = (4, 7)
"""The first version with the effort `xhigh`. https://platform.claude.com/docs/en/build-with-claude/effort"""


def predates_adaptive(model: str) -> bool:
    """Whether a model is older than adaptive thinking, by its name."""
    return _PRE_ADAPTIVE_PATTERN.search(model) is not None


def uses_token_budget(model: str, profile: Profile) -> bool:
    """Whether thinking of this model is set by a number of tokens."""
    return predates_adaptive(model) if profile.thinking_form == "by_model" else profile.thinking_form == "budget"


def accepts_sampling(model: str, profile: Profile) -> bool:
    """Whether this model accepts `temperature`, `top_p` and `top_k`. The API refuses them since Claude 4.7.

    A model that uses a token budget is older, whatever its name.
    """
    version = _read_version(model)
    return version is None or uses_token_budget(model, profile) or version < _FIRST_WITHOUT_SAMPLING


def _read_version(model: str) -> tuple[int, int] | None:
    version = _VERSION_PATTERN.search(model)
    return None if version is None else (int(version[1]), int(version[2] or 0))


@dataclass(frozen=True, slots=True)
class LoweredThinking:
    """The parts of a request that control thinking."""

    body: Json
    """The keys of the body for thinking, without `max_tokens`."""
    thinks: bool
    """Whether the body enables thinking."""
    max_tokens: int
    """`max_tokens` of the request, which includes the thinking."""


def lower_thinking(turn: Turn, profile: Profile, losses: list[Loss], *, refusal: str | None) -> LoweredThinking:
    """Returns the keys for thinking, and `max_tokens`. Losses are appended to `losses`.

    `refusal` is the reason why the API would refuse thinking in this request. It is reported as a loss if the turn
    requests thinking. With None, thinking is possible.
    """
    reasoning = {key: value for key, value in (turn.reasoning or {}).items() if value is not None}
    summary, effort, budget = reasoning.get("summary"), reasoning.get("effort"), reasoning.get("max_tokens")
    if turn.thinking is False or effort == "none":
        return LoweredThinking({"thinking": {"type": "disabled"}}, False, _answer_max_tokens(turn, profile))
    if turn.thinking is None and effort is None and budget is None:
        if summary:
            losses.append(Loss("reasoning.summary", "dropped"))
        return LoweredThinking({}, False, _answer_max_tokens(turn, profile))
    if turn.thinking is None and budget is None and not turn.thinks_by_effort:
        return _lower_answer_effort(turn, profile, effort, losses)
    if uses_token_budget(turn.model, profile):
        return _lower_budget(turn, profile, losses, budget or _budget_for_effort(effort, profile), refusal)
    body = _lower_effort(effort, turn.model, losses)
    if budget is not None:
        losses.append(Loss("reasoning.max_tokens", "dropped"))
    if refusal:
        losses.append(Loss("reasoning", refusal))
        return LoweredThinking(body, False, _answer_max_tokens(turn, profile))
    # By default the API omits the text of the thinking and sends only its signature.
    body["thinking"] = {"type": "adaptive", "display": "summarized"}
    return LoweredThinking(body, True, turn.max_output_tokens or DEFAULT_MAX_TOKENS)


def _lower_effort(effort: str | None, model: str, losses: list[Loss]) -> Json:
    if effort is None:
        return {}
    sent = _EFFORT_ALIASES.get(effort, effort)
    if effort == "xhigh" and (version := _read_version(model)) is not None and version < _FIRST_WITH_XHIGH:
        sent = "high"
    if sent != effort:
        losses.append(Loss("reasoning.effort", f"{effort} as {sent}"))
    return {"output_config": {"effort": sent}}


def _lower_answer_effort(turn: Turn, profile: Profile, effort: str | None, losses: list[Loss]) -> LoweredThinking:
    """Returns the keys for the effort of an answer without thinking, which models before adaptive thinking lack."""
    if effort is not None and uses_token_budget(turn.model, profile):
        losses.append(Loss("reasoning.effort", "dropped"))
        effort = None
    return LoweredThinking(_lower_effort(effort, turn.model, losses), False, _answer_max_tokens(turn, profile))


def _budget_for_effort(effort: str | None, profile: Profile) -> int:
    effort = effort or ""
    share = int(profile.max_thinking_tokens * _BUDGET_SHARES.get(effort, 1))
    return profile.effort_budgets.get(effort, share)


def _lower_budget(
    turn: Turn, profile: Profile, losses: list[Loss], requested: int, refusal: str | None
) -> LoweredThinking:
    budget = max(requested, _MIN_BUDGET)
    if (limit := turn.max_output_tokens) is not None:
        budget = min(budget, limit - max(limit // 4, 1))  # a quarter is left for the answer
    elif profile.max_response_tokens is not None:
        limit = budget + profile.max_response_tokens
    else:
        limit = max(DEFAULT_MAX_TOKENS, budget + DEFAULT_MAX_TOKENS // 4)
    if not refusal and budget < _MIN_BUDGET:
        refusal = "no room for it"
    if refusal:
        losses.append(Loss("reasoning", refusal))
        return LoweredThinking({}, False, _answer_max_tokens(turn, profile))
    if budget != requested:
        losses.append(Loss("reasoning", f"{budget} tokens"))
    return LoweredThinking({"thinking": {"type": "enabled", "budget_tokens": budget}}, True, limit)


def _answer_max_tokens(turn: Turn, profile: Profile) -> int:
    """Returns `max_tokens` of a reply without thinking."""
    return turn.max_output_tokens or profile.max_response_tokens or DEFAULT_MAX_TOKENS
