"""Lowers the reasoning parameters to one of the API's two forms, and sets `max_tokens`.

`adaptive`  the model decides how much to think, by `output_config.effort`; models since Claude 4.6.
`budget`    the request sets a number of tokens, which count towards `max_tokens`; models before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from translation.messages.upstream.details import THINKING_BLOCKS
from translation.messages.upstream.families import ClaudeFamily
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

DEFAULT_MAX_TOKENS: Final = 32_000
"""`max_tokens` if nothing sets it. Every model since Claude 3.7 can write that many."""

BETAS: Final = "anthropic_beta"
"""The key of a body for the names of betas, which are sent as a header."""

_MIN_BUDGET: Final = 1024
"""The smallest budget that the API accepts, in tokens."""

_BUDGET_SHARES: Final = {"minimal": 1 / 16, "low": 1 / 4, "medium": 1 / 2}
"""`reasoning.effort` -> its share of `max_thinking_tokens`. An effort that is not listed gets all of it."""

_EFFORT_ALIASES: Final = {"minimal": "low"}
"""`reasoning.effort` -> the API's name, where it differs."""

_LOWEST_EFFORT: Final = "low"

_BETWEEN_TOOLS: Final[Json] = {"type": "between_tools"}

_REFUSED_BETWEEN_TOOLS: Final = ("xhigh", "max")
"""Efforts that the API refuses beside `between_tools`.
https://platform.claude.com/docs/en/models/sonnet-5-5/whats-new-sonnet-5-5"""

_BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
_DROP_CHANGED: Final[Json] = {"prefix_mismatch_behavior": "drop_block"}
"""Makes the API drop past thinking that is bound to other messages, where it would refuse the request. It needs the
beta. https://platform.claude.com/docs/en/build-with-claude/preserved-thinking"""


@dataclass(frozen=True, slots=True)
class LoweredThinking:
    """The parts of a request that control thinking."""

    body: Json
    """The keys of the body for thinking, without `max_tokens`."""
    thinks: bool
    """Whether the model thinks before it answers."""
    max_tokens: int
    """`max_tokens` of the request, which includes the thinking."""


def lower_thinking(
    turn: Turn, family: ClaudeFamily, profile: Profile, losses: list[Loss], *, refusal: str | None
) -> LoweredThinking:
    """Returns the keys for thinking, and `max_tokens`. Losses are appended to `losses`.

    `refusal` is the reason why the model would not think in this request, or the API would refuse it. It is reported as
    a loss if the turn requests thinking. With None, thinking is possible.
    """
    reasoning = {key: value for key, value in (turn.reasoning or {}).items() if value is not None}
    summary, effort, budget = reasoning.get("summary"), reasoning.get("effort"), reasoning.get("max_tokens")
    if turn.thinking is False or effort == "none":
        return _turn_off(turn, family, profile, losses, by_effort=turn.thinking is not False)
    if family.off == "between_tools" and _asks_between_tools(turn):
        return _lower_between_tools(turn, profile, effort, losses)
    is_requested = turn.thinking or budget is not None or (effort is not None and turn.thinks_by_effort)
    if family.thinks == "when_asked" and not is_requested:
        if summary:
            losses.append(Loss("reasoning.summary", "dropped"))
        return _lower_answer_effort(turn, family, profile, effort, losses)
    if family.takes_budget:
        return _lower_budget(turn, profile, losses, budget or _budget_for_effort(effort, profile), refusal)
    body = _lower_effort(effort, family, losses)
    # Such a budget is not sent, and models have limits that it may exceed.
    allowance = min(budget, DEFAULT_MAX_TOKENS) if budget else _budget_for_effort(effort, profile)
    if budget is not None:
        losses.append(Loss("reasoning.max_tokens", "dropped"))
    if refusal and is_requested:
        losses.append(Loss("reasoning", refusal))
    if refusal and family.thinks == "when_asked":
        return LoweredThinking(body, False, _answer_max_tokens(turn, profile))
    return _think(turn, profile, body, allowance)


def _think(turn: Turn, profile: Profile, body: Json, allowance: int) -> LoweredThinking:
    """Returns the keys of a body, with adaptive thinking and its text. `allowance` are the tokens for it, which count
    towards `max_tokens`.

    By default newer models omit the text of their thinking, and with it what they write between calls of tools: both
    come in blocks that have only a signature. A model that thinks unasked does the same with this as without it.
    """
    body = {**body, "thinking": {"type": "adaptive", "display": "summarized"}}
    limit = turn.max_output_tokens
    if limit is None and profile.max_response_tokens is not None:
        limit = profile.max_response_tokens + allowance
    return LoweredThinking(body, True, limit or DEFAULT_MAX_TOKENS)


def _turn_off(
    turn: Turn, family: ClaudeFamily, profile: Profile, losses: list[Loss], *, by_effort: bool
) -> LoweredThinking:
    """Returns the keys that turn thinking off, or that lower it where the model always thinks, which is a loss."""
    if family.off is not None:
        return LoweredThinking({"thinking": {"type": family.off}}, False, _answer_max_tokens(turn, profile))
    param, original = ("reasoning.effort", "none") if by_effort else ("thinking", "false")
    losses.append(Loss(param, f"{original} as {_LOWEST_EFFORT}"))
    allowance = _budget_for_effort(_LOWEST_EFFORT, profile)
    return _think(turn, profile, {"output_config": {"effort": _LOWEST_EFFORT}}, allowance)


def _asks_between_tools(turn: Turn) -> bool:
    """Whether a client of the Messages API asks for thinking between calls only. Its lifting lists this value as
    unknown, because the other APIs do not have it, and its lowerings then report it."""
    return any(key.holder == _BETWEEN_TOOLS for key in turn.unknown_keys)


def _lower_between_tools(turn: Turn, profile: Profile, effort: str | None, losses: list[Loss]) -> LoweredThinking:
    """Returns the keys for thinking between calls only, beside which the API accepts no other key of `thinking`."""
    body: Json = {"thinking": dict(_BETWEEN_TOOLS)}
    if effort in _REFUSED_BETWEEN_TOOLS:
        losses.append(Loss("reasoning.effort", f"{effort} as high"))
        effort = "high"
    if effort is not None:
        body["output_config"] = {"effort": effort}
    return LoweredThinking(body, False, _answer_max_tokens(turn, profile))


def _lower_effort(effort: str | None, family: ClaudeFamily, losses: list[Loss]) -> Json:
    if effort is None:
        return {}
    sent = "high" if effort == "xhigh" and not family.has_xhigh else _EFFORT_ALIASES.get(effort, effort)
    if sent != effort:
        losses.append(Loss("reasoning.effort", f"{effort} as {sent}"))
    return {"output_config": {"effort": sent}}


def _lower_answer_effort(
    turn: Turn, family: ClaudeFamily, profile: Profile, effort: str | None, losses: list[Loss]
) -> LoweredThinking:
    """Returns the keys for the effort of an answer without thinking, which models before adaptive thinking lack."""
    if effort is not None and family.takes_budget:
        losses.append(Loss("reasoning.effort", "dropped"))
        effort = None
    return LoweredThinking(_lower_effort(effort, family, losses), False, _answer_max_tokens(turn, profile))


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


def allow_changed_history(body: Json, profile: Profile, losses: list[Loss]) -> None:
    """Makes a body acceptable to a model that binds its thinking to all that came before it, in place.

    Clients of other APIs change the beginning of a conversation, such as a date in the system prompt or the list of
    tools. The API would refuse each further request, since the thinking stays in the history: it is asked to drop such
    thinking instead, and its reply says what it dropped. Without `block_binding` of the profile it may refuse. Beside
    thinking that is turned off there is no place to ask for it, so that the past thinking is removed. `between_tools`
    has no place for it either, but there the model needs its notes back.
    """
    if not any(block["type"] in THINKING_BLOCKS for block in _list_past_blocks(body["messages"])):
        return
    thinking = body["thinking"]
    if thinking["type"] == "adaptive" and profile.block_binding:
        thinking["block_binding"] = dict(_DROP_CHANGED)
        body[BETAS] = [_BINDING_BETA]
    elif thinking["type"] == "disabled":
        for message in body["messages"]:
            message["content"] = [block for block in message["content"] if block["type"] not in THINKING_BLOCKS]
        losses.append(Loss("input", "reasoning dropped"))


def _list_past_blocks(messages: Sequence[Json]) -> list[Json]:
    return [block for message in messages if message["role"] == "assistant" for block in message["content"]]
