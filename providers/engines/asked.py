"""A turn as an engine is asked it: the chat to render, and what shapes the text that follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from providers.engines.base import Guide
from providers.engines.budget import budget_of, thinks
from providers.engines.guides import NAMES, guide_of
from translation.chat.lower import lower
from translation.errors import Unrepresentable
from translation.json_types import Json
from translation.loss import Loss
from translation.parsers.tools import PARSERS, Forced, ToolParser, forced, stop
from translation.profile import Profile
from translation.turn import Turn

Parsers = Mapping[str, Callable[[], ToolParser]]
"""Name -> a new parser for one answer."""

_CHAT: Final = ("messages", "tools", "tool_choice", "chat_template_kwargs")

_TEMPLATE: Final = frozenset({"chat_template_kwargs"})
"""Fields outside the API that the prompt is made of."""

_OTHER_PLACES: Final = frozenset({"stop", "logprobs", "top_logprobs", "n"})
"""Parameters of a turn that have a place of their own in what an engine is asked."""

_OF_NO_MATTER: Final = frozenset(
    {"metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "store"}
)
"""Parameters that say nothing to an engine: they are for who keeps accounts, and change no answer."""

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
    guide = guide_of(turn, profile.extra_params)
    plain = replace(
        turn,
        reasoning=None,
        thinking=None,
        text_format=None,
        verbosity=None,
        max_output_tokens=None,
        stream=False,
        sampling={"n": turn.sampling["n"]} if "n" in turn.sampling else {},
        extra={name: value for name, value in turn.extra.items() if name in _TEMPLATE},
    )
    native = replace(
        profile, forced_tool="named", text_tool_calls="none", extra_params=_TEMPLATE & profile.extra_params
    )
    body, lowered = lower(plain, native)
    losses = [*lowered, *_lost(turn, profile, honoured)]
    chat: Json = {
        name: body[name] for name in ("messages", "tools", "tool_choice", "chat_template_kwargs") if name in body
    }
    choice = chat.get("tool_choice", "auto")
    if choice == "none":
        chat = {name: value for name, value in chat.items() if name not in ("tools", "tool_choice")}
    tools = chat.get("tools", [])
    in_words = profile.text_tool_calls != "none"
    name = profile.text_tool_calls if in_words else profile.tool_parser
    if tools and name not in parsers:
        raise Unrepresentable(
            "this model's calls come as text: its configuration must name the tool_parser that reads them",
            param="tools",
        )
    if tools and guide is not None and choice == "auto":
        # Held to its schema the model could never call a tool.
        guide = None
        losses.append(Loss("text.format", "not enforced beside tools"))
    single = profile.single_tool_block or turn.parallel_tool_calls is False
    if tools and turn.parallel_tool_calls is False and stop(name) is None:
        losses.append(Loss("parallel_tool_calls", "dropped"))
    chat["chat_template_kwargs"] = _template_arguments(turn, profile, chat, thinking=is_thinking, two_runs=two_runs)
    sampling = {name: value for name, value in _sampling(turn, profile).items() if name in honoured}
    if profile.two_pass == "engine" and is_thinking:
        if BUDGET not in honoured:
            raise Unrepresentable("this model's engine keeps no budget for thinking in one run", param="reasoning")
        sampling[BUDGET] = budget_of(turn, profile)
    else:
        sampling.pop(BUDGET, None)
    call = _forced(name, tools, choice) if tools and choice != "auto" else None
    return Asked(
        chat=chat,
        parser=parsers[name] if tools else None,
        in_words=in_words,
        format=name if name in PARSERS else "hermes",
        forced=call,
        guide=guide if call is None else Guide(json_schema=call.schema, after=call.suffix),
        sampling=sampling,
        stop=tuple(turn.sampling.get("stop") or ()),
        block_stop=stop(name) if tools and single else None,
        logprobs=_alternatives(turn.sampling),
        budget=budget_of(turn, profile) if two_runs else None,
        losses=tuple(dict.fromkeys(losses)),
    )


def _lost(turn: Turn, profile: Profile, honoured: frozenset[str]) -> list[Loss]:
    kept = {"effort", "max_tokens"} if profile.two_pass != "off" else {"effort"}
    lost = [
        f"reasoning.{key}" for key, value in (turn.reasoning or {}).items() if value is not None and key not in kept
    ]
    if turn.verbosity is not None:
        lost.append("verbosity")
    if turn.thinking is not None and profile.thinking_switch == "none" and profile.two_pass != "on":
        lost.append("thinking")
    places = _OTHER_PLACES | _OF_NO_MATTER | honoured
    for name, value in turn.sampling.items():
        if name not in places and not (name == "service_tier" and value in ("auto", "default")):
            lost.append(name)
    for name, value in turn.extra.items():
        takes = name in profile.extra_params and name in (_TEMPLATE | NAMES | honoured) and name != BUDGET
        if value is not None and not takes:
            lost.append(name)
    return [Loss(name, "dropped") for name in lost]


def _sampling(turn: Turn, profile: Profile) -> Mapping[str, Any]:
    extra = {name: value for name, value in turn.extra.items() if name in profile.extra_params and value is not None}
    return {**{name: value for name, value in turn.sampling.items() if name not in _OTHER_PLACES}, **extra}


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
