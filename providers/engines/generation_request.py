"""A turn as an engine is asked it: the chat to render, and what shapes the text that follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from providers.engines.base import Guide
from providers.engines.output_constraints import NAMES, guide_of
from providers.engines.thinking_budget import budget_of, thinks
from translation.chat.lowering.lower import lower
from translation.errors import Unrepresentable
from translation.parsers.tools import PARSERS, Forced, ToolParser, forced, opening, stop
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Lowered, Turn

Parsers = Mapping[str, Callable[[], ToolParser]]
"""Name -> a new parser for one answer."""

_CHAT: Final = ("messages", "tools", "tool_choice", "chat_template_kwargs")

_RENDERED: Final = ("messages", "tools", "tool_choice", "chat_template_kwargs")

_TEMPLATE: Final = frozenset({"chat_template_kwargs"})
"""Fields outside the API that the prompt is made of."""

_OTHER_PLACES: Final = frozenset({"stop", "logprobs", "top_logprobs", "n"})
"""Parameters of a turn that have a place of their own in what an engine is asked."""

BUDGET: Final = "thinking_token_budget"
"""vLLM's own parameter, for a budget that it keeps in one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All that is known of a turn before its engine is asked anything."""

    chat: Json
    """`messages`, `tools`, `tool_choice`, `chat_template_kwargs`."""
    parser: Callable[[], ToolParser] | None
    """How the answer's calls are read; None: it has none."""
    in_words: bool
    """The template is not to say the tools, whether it can or not."""
    format: str
    """How calls are written where the template does not say the tools."""
    forced: Forced | None
    """The call that the answer must be."""
    guide: Guide | None
    """What holds the answer, or the call in its place."""
    call_opening: str | None
    """How a call begins, where the answer may be one instead of what `guide` holds it to."""
    sampling: Mapping[str, Any]
    stop: Sequence[str]
    block_stop: str | None
    """What ends the answer after its first block of calls."""
    logprobs: int | None
    budget: int | None
    """Tokens for thinking in a run of its own; None: there is one run."""
    losses: Sequence[Loss]


def asked_of(turn: Turn, profile: Profile, honoured: frozenset[str], parsers: Parsers = PARSERS) -> Asked:
    """No I/O. `honoured`: parameters of the turn that the engine knows.

    Raises Unrepresentable for what would change the answer's meaning if it were left out, InvalidRequest.
    """
    is_thinking = thinks(turn)
    two_runs = profile.two_pass == "on" and is_thinking
    chat, lowered = _chat(turn, profile)
    losses = [*lowered, *_lost(turn, profile, honoured)]
    tools, choice = chat.get("tools", []), chat.get("tool_choice", "auto")
    in_words = profile.text_tool_calls != "none"
    name = profile.text_tool_calls if in_words else profile.tool_parser
    if tools and name not in parsers:
        told = "this model's calls come as text: its configuration has to name the tool_parser that reads them"
        raise Unrepresentable(told, param="tools")
    call = _forced(name, tools, choice) if tools and choice != "auto" else None
    guide = guide_of(turn, profile.extra_params)
    if call is not None:
        guide = Guide(json_schema=call.schema, after=call.suffix)
    instead = opening(name) if tools and call is None and guide is not None else None
    if tools and call is None and guide is not None and instead is None:
        # Held to its form the model could never call a tool, and nothing tells a call from what has the form.
        guide = None
        losses.append(Loss("text.format", "not enforced beside tools"))
    if tools and turn.parallel_tool_calls is False and stop(name) is None:
        losses.append(Loss("parallel_tool_calls", "dropped"))
    single = profile.single_tool_block or turn.parallel_tool_calls is False
    chat["chat_template_kwargs"] = _template_arguments(turn, profile, chat, thinking=is_thinking, two_runs=two_runs)
    return Asked(
        chat=chat,
        parser=parsers[name] if tools else None,
        in_words=in_words,
        format=name if name in PARSERS else "hermes",
        forced=call,
        guide=guide,
        call_opening=instead,
        sampling=_sampling(turn, profile, honoured),
        stop=tuple(turn.sampling.get("stop") or ()),
        block_stop=stop(name) if tools and single else None,
        logprobs=_alternatives(turn.sampling),
        budget=budget_of(turn, profile) if two_runs else None,
        losses=tuple(dict.fromkeys(losses)),
    )


def _chat(turn: Turn, profile: Profile) -> Lowered:
    """The part of a chat body that prompts are rendered from; tools that may not be called are not in it."""
    extra = {name: value for name, value in turn.extra.items() if name in _TEMPLATE}
    sampling = {name: value for name, value in turn.sampling.items() if name == "n"}
    elsewhere = replace(turn, reasoning=None, thinking=None, text_format=None, verbosity=None, max_output_tokens=None)
    plain = replace(elsewhere, stream=False, sampling=sampling, extra=extra)
    known = _TEMPLATE & profile.extra_params
    body, losses = lower(plain, replace(profile, forced_tool="named", text_tool_calls="none", extra_params=known))
    names = ("messages", "chat_template_kwargs") if body.get("tool_choice") == "none" else _RENDERED
    return Lowered({name: body[name] for name in names if name in body}, losses)


def _lost(turn: Turn, profile: Profile, honoured: frozenset[str]) -> list[Loss]:
    kept = {"effort", "max_tokens"} if profile.two_pass != "off" else {"effort"}
    lost = [
        f"reasoning.{key}" for key, value in (turn.reasoning or {}).items() if value is not None and key not in kept
    ]
    if turn.verbosity is not None:
        lost.append("text.verbosity")
    if (turn.text_format or {}).get("description"):
        lost.append("text.format.description")
    if turn.thinking is not None and profile.thinking_switch == "none" and profile.two_pass != "on":
        lost.append("thinking")
    places = _OTHER_PLACES | honoured
    for name, value in turn.sampling.items():
        is_plain = value in ("", {}) or value is False or (name == "service_tier" and value in ("auto", "default"))
        if not is_plain and name not in places:
            lost.append(name)
    for name, value in turn.extra.items():
        takes = name in profile.extra_params and name in (_TEMPLATE | NAMES | honoured) and name != BUDGET
        if value is not None and not takes:
            lost.append(name)
    return [Loss(name, "dropped") for name in lost]


def _sampling(turn: Turn, profile: Profile, honoured: frozenset[str]) -> Mapping[str, Any]:
    given = {**turn.sampling, **{name: value for name, value in turn.extra.items() if name in profile.extra_params}}
    kept = honoured - _OTHER_PLACES - {BUDGET}
    sampling = {name: value for name, value in given.items() if name in kept and value is not None}
    if profile.two_pass != "engine" or not thinks(turn):
        return sampling
    if BUDGET not in honoured:
        raise Unrepresentable("this model's engine keeps no budget for thinking in one run", param="reasoning")
    return {**sampling, BUDGET: budget_of(turn, profile)}


def _alternatives(sampling: Mapping[str, Any]) -> int | None:
    """Either parameter asks for probabilities."""
    rivals = sampling.get("top_logprobs")
    return int(rivals or 0) if sampling.get("logprobs") or rivals else None


def _template_arguments(turn: Turn, profile: Profile, chat: Json, *, thinking: bool, two_runs: bool) -> Json:
    """What the client says to the template itself goes over what we make of its other parameters."""
    said: Json = {}
    switched = profile.thinking_switch == "chat_template_kwargs"
    if two_runs or (switched and (turn.thinking is not None or not thinking)):
        said["enable_thinking"] = thinking
    effort = (turn.reasoning or {}).get("effort")
    if effort not in (None, "none") and not two_runs:
        said["reasoning_effort"] = effort
    return {**said, **(chat.get("chat_template_kwargs") or {})}


def _forced(parser: str, tools: Sequence[Json], choice: str | Json) -> Forced:
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        tools = [tool for tool in tools if tool["function"]["name"] == name]
    found = forced(parser, tools)
    if found is None:
        raise Unrepresentable(
            f"calls in the format {parser!r} cannot be forced: use tool_choice auto", param="tool_choice"
        )
    return found
