"""A turn as an engine is asked it: the chat to render, and what shapes the text that follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from providers.engines.base import OutputConstraint
from providers.engines.output_constraints import CONSTRAINT_FIELDS, output_constraint_of
from providers.engines.thinking_budget import may_think, thinking_budget_of
from translation.chat.lowering.lower import lower
from translation.errors import Unrepresentable
from translation.parsers.tools import (
    PARSER_FACTORIES,
    ForcedCall,
    ToolParser,
    block_stop_of,
    call_opening_of,
    force_call,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn

ToolParsers = Mapping[str, Callable[[], ToolParser]]
"""Name -> a new parser for one answer."""

_CHAT: Final = ("messages", "tools", "tool_choice", "chat_template_kwargs")

_PROMPT_FIELDS: Final = ("messages", "tools", "tool_choice", "chat_template_kwargs")

_TEMPLATE_EXTRAS: Final = frozenset({"chat_template_kwargs"})
"""Fields outside the API that the prompt is made of."""

_SEPARATE_PARAMETERS: Final = frozenset({"stop", "logprobs", "top_logprobs", "n"})
"""Parameters of a turn that have a place of their own in what an engine is asked."""

THINKING_BUDGET_PARAM: Final = "thinking_token_budget"
"""vLLM's own parameter, for a budget that it keeps in one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """All that is known of a turn before its engine is asked anything."""

    chat: Json
    """`messages`, `tools`, `tool_choice`, `chat_template_kwargs`."""
    parser: Callable[[], ToolParser] | None
    """How the answer's calls are read; None: it has none."""
    tools_in_text: bool
    """The template is not to say the tools, whether it can or not."""
    call_format: str
    """How calls are written where the template does not say the tools."""
    forced_call: ForcedCall | None
    """The call that the answer must be."""
    constraint: OutputConstraint | None
    """What holds the answer, or the call in its place."""
    call_opening: str | None
    """How a call begins, where the answer may be one instead of what `guide` holds it to."""
    sampling: Mapping[str, Any]
    stop: Sequence[str]
    block_stop: str | None
    """What ends the answer after its first block of calls."""
    top_logprobs: int | None
    thinking_budget: int | None
    """Tokens for thinking in a run of its own; None: there is one run."""
    losses: Sequence[Loss]


def build_engine_request(
    turn: Turn, profile: Profile, supported: frozenset[str], parsers: ToolParsers = PARSER_FACTORIES
) -> EngineRequest:
    """No I/O. `honoured`: parameters of the turn that the engine knows.

    Raises Unrepresentable for what would change the answer's meaning if it were left out, InvalidRequest.
    """
    is_thinking = may_think(turn)
    two_runs = profile.two_pass == "on" and is_thinking
    chat, lowered = _build_chat(turn, profile)
    losses = [*lowered, *_losses_of(turn, profile, supported)]
    tools, choice = chat.get("tools", []), chat.get("tool_choice", "auto")
    in_words = profile.text_tool_calls != "none"
    name = profile.text_tool_calls if in_words else profile.tool_parser
    if tools and name not in parsers:
        message = "this model's calls come as text: its configuration has to name the tool_parser that reads them"
        raise Unrepresentable(message, param="tools")
    call = _forced_call_of(name, tools, choice) if tools and choice != "auto" else None
    guide = output_constraint_of(turn, profile.extra_params)
    if call is not None:
        guide = OutputConstraint(json_schema=call.schema, suffix=call.suffix)
    call_opening = call_opening_of(name) if tools and call is None and guide is not None else None
    if tools and call is None and guide is not None and call_opening is None:
        # Held to its form the model could never call a tool, and nothing tells a call from what has the form.
        guide = None
        losses.append(Loss("text.format", "not enforced beside tools"))
    if tools and turn.parallel_tool_calls is False and block_stop_of(name) is None:
        losses.append(Loss("parallel_tool_calls", "dropped"))
    single = profile.single_tool_block or turn.parallel_tool_calls is False
    chat["chat_template_kwargs"] = _template_arguments(turn, profile, chat, thinking=is_thinking, two_runs=two_runs)
    return EngineRequest(
        chat=chat,
        parser=parsers[name] if tools else None,
        tools_in_text=in_words,
        call_format=name if name in PARSER_FACTORIES else "hermes",
        forced_call=call,
        constraint=guide,
        call_opening=call_opening,
        sampling=_sampling_of(turn, profile, supported),
        stop=tuple(turn.sampling.get("stop") or ()),
        block_stop=block_stop_of(name) if tools and single else None,
        top_logprobs=_top_logprobs_of(turn.sampling),
        thinking_budget=thinking_budget_of(turn, profile) if two_runs else None,
        losses=tuple(dict.fromkeys(losses)),
    )


def _build_chat(turn: Turn, profile: Profile) -> LoweredRequest:
    """The part of a chat body that prompts are rendered from; tools that may not be called are not in it."""
    extra = {name: value for name, value in turn.extra.items() if name in _TEMPLATE_EXTRAS}
    sampling = {name: value for name, value in turn.sampling.items() if name == "n"}
    elsewhere = replace(turn, reasoning=None, thinking=None, text_format=None, verbosity=None, max_output_tokens=None)
    plain = replace(elsewhere, stream=False, sampling=sampling, extra=extra)
    known = _TEMPLATE_EXTRAS & profile.extra_params
    body, losses = lower(plain, replace(profile, forced_tool="named", text_tool_calls="none", extra_params=known))
    names = ("messages", "chat_template_kwargs") if body.get("tool_choice") == "none" else _PROMPT_FIELDS
    return LoweredRequest({name: body[name] for name in names if name in body}, losses)


def _losses_of(turn: Turn, profile: Profile, honoured: frozenset[str]) -> list[Loss]:
    supported_keys = {"effort", "max_tokens"} if profile.two_pass != "off" else {"effort"}
    lost = [
        f"reasoning.{key}"
        for key, value in (turn.reasoning or {}).items()
        if value is not None and key not in supported_keys
    ]
    if turn.verbosity is not None:
        lost.append("text.verbosity")
    if (turn.text_format or {}).get("description"):
        lost.append("text.format.description")
    if turn.thinking is not None and profile.thinking_switch == "none" and profile.two_pass != "on":
        lost.append("thinking")
    places = _SEPARATE_PARAMETERS | honoured
    for name, value in turn.sampling.items():
        is_plain = value in ("", {}) or value is False or (name == "service_tier" and value in ("auto", "default"))
        if not is_plain and name not in places:
            lost.append(name)
    for name, value in turn.extra.items():
        takes = (
            name in profile.extra_params
            and name in (_TEMPLATE_EXTRAS | CONSTRAINT_FIELDS | honoured)
            and name != THINKING_BUDGET_PARAM
        )
        if value is not None and not takes:
            lost.append(name)
    return [Loss(name, "dropped") for name in lost]


def _sampling_of(turn: Turn, profile: Profile, honoured: frozenset[str]) -> Mapping[str, Any]:
    requested = {**turn.sampling, **{name: value for name, value in turn.extra.items() if name in profile.extra_params}}
    names = honoured - _SEPARATE_PARAMETERS - {THINKING_BUDGET_PARAM}
    sampling = {name: value for name, value in requested.items() if name in names and value is not None}
    if profile.two_pass != "engine" or not may_think(turn):
        return sampling
    if THINKING_BUDGET_PARAM not in honoured:
        raise Unrepresentable("this model's engine keeps no budget for thinking in one run", param="reasoning")
    return {**sampling, THINKING_BUDGET_PARAM: thinking_budget_of(turn, profile)}


def _top_logprobs_of(sampling: Mapping[str, Any]) -> int | None:
    """Either parameter asks for probabilities."""
    alternatives = sampling.get("top_logprobs")
    return int(alternatives or 0) if sampling.get("logprobs") or alternatives else None


def _template_arguments(turn: Turn, profile: Profile, chat: Json, *, thinking: bool, two_runs: bool) -> Json:
    """What the client says to the template itself goes over what we make of its other parameters."""
    arguments: Json = {}
    switched = profile.thinking_switch == "chat_template_kwargs"
    if two_runs or (switched and (turn.thinking is not None or not thinking)):
        arguments["enable_thinking"] = thinking
    effort = (turn.reasoning or {}).get("effort")
    if effort not in (None, "none") and not two_runs:
        arguments["reasoning_effort"] = effort
    return {**arguments, **(chat.get("chat_template_kwargs") or {})}


def _forced_call_of(parser: str, tools: Sequence[Json], choice: str | Json) -> ForcedCall:
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        tools = [tool for tool in tools if tool["function"]["name"] == name]
    call = force_call(parser, tools)
    if call is None:
        raise Unrepresentable(
            f"calls in the format {parser!r} cannot be forced: use tool_choice auto", param="tool_choice"
        )
    return call
