"""Builds an engine request from a turn: the chat to render, and the parameters of the generated text. No I/O."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from providers.engines.base import OutputConstraint
from providers.engines.output_constraints import CONSTRAINT_FIELDS, parse_output_constraint
from providers.engines.thinking_budget import resolve_thinking_budget
from translation.chat.upstream.lower import lower
from translation.errors import Unrepresentable
from translation.lowering.reasoning import find_reasoning_losses, find_thinking_losses, may_think
from translation.parsers.tools import (
    PARSER_FACTORIES,
    ForcedCall,
    ToolParser,
    block_stop_of,
    call_opening_of,
    force_call,
    force_text_call,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.tools.function_schemas import FREEFORM_ARGUMENT

ToolParsers = Mapping[str, Callable[[], ToolParser]]
"""Name -> a function that returns a new tool parser for one answer."""

_PROMPT_FIELDS: Final = ("messages", "tools", "tool_choice", "chat_template_kwargs")

_TEMPLATE_EXTRAS: Final = frozenset({"chat_template_kwargs"})
"""Fields outside the API that templates are rendered from."""

_SEPARATE_PARAMETERS: Final = frozenset({"stop", "logprobs", "top_logprobs", "n"})
"""Parameters of a turn that have a field of their own in a request to an engine."""

THINKING_BUDGET_PARAM: Final = "thinking_token_budget"
"""vLLM's parameter for a thinking budget that it enforces within one generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequest:
    """A turn in the form that engines need, before anything is rendered."""

    chat: Json
    """`messages`, `tools`, `tool_choice`, `chat_template_kwargs`."""
    parser: Callable[[], ToolParser] | None
    """Creates the tool parser of the answer. None: the turn has no tools."""
    tools_in_text: bool
    """The gateway writes the tools into the messages, even if the template can render them."""
    call_format: str
    """The format of calls if the template does not render the tools."""
    forced_call: ForcedCall | None
    """The call that the answer must consist of."""
    generates_argument: bool
    """The model writes only the text of the forced call's argument, without JSON around it."""
    constraint: OutputConstraint | None
    """The constraint on the answer, or on the forced call."""
    call_opening: str | None
    """The text that begins a call, if the answer may be a call instead of what `constraint` requires."""
    sampling: Mapping[str, Any]
    stop: Sequence[str]
    block_stop: str | None
    """The stop string that ends the answer after its first block of calls."""
    top_logprobs: int | None
    thinking_budget: int | None
    """The thinking budget of a thinking pass, in tokens. None: there is one pass."""
    losses: Sequence[Loss]


def build_engine_request(
    turn: Turn, profile: Profile, supported: frozenset[str], parsers: ToolParsers = PARSER_FACTORIES
) -> EngineRequest:
    """Builds the engine request of a turn, without I/O. `supported` are the parameters that the engine honours.

    Raises Unrepresentable for a part of the turn without which the answer would mean something else, and
    InvalidRequest.
    """
    is_thinking = may_think(turn)
    has_two_passes = profile.two_pass == "on" and is_thinking
    chat, chat_losses = _build_chat(turn, profile)
    losses = [*chat_losses, *_list_losses(turn, profile, supported)]
    tools, choice = chat.get("tools", []), chat.get("tool_choice", "auto")
    tools_in_text = profile.text_tool_calls != "none"
    name = profile.text_tool_calls if tools_in_text else profile.tool_parser
    if tools and name not in parsers:
        message = "this model writes calls as text: set tool_parser in its configuration to the parser of its format"
        raise Unrepresentable(message, param="tools")
    call = _build_forced_call(name, tools, choice) if tools and choice != "auto" else None
    constraint = parse_output_constraint(turn, profile.extra_params)
    grammar = _find_input_grammar(turn, tools, choice) if call is not None else None
    if call is not None and grammar is None:
        constraint = OutputConstraint(json_schema=call.schema, suffix=call.suffix)
    elif grammar is not None:
        # Inside JSON the input could not be held to the client's grammar, because its characters are escaped there
        # (docs/adr/0035).
        function, constraint = grammar
        call = force_text_call(name, function, FREEFORM_ARGUMENT)
    call_opening = call_opening_of(name) if tools and call is None and constraint is not None else None
    if tools and call is None and constraint is not None and call_opening is None:
        # With the constraint the model could never call a tool, because a call in this format has no known beginning.
        constraint = None
        losses.append(Loss("text.format", "not enforced beside tools"))
    if tools and turn.parallel_tool_calls is False and block_stop_of(name) is None:
        losses.append(Loss("parallel_tool_calls", "dropped"))
    is_single_block = profile.single_tool_block or turn.parallel_tool_calls is False
    chat["chat_template_kwargs"] = _template_arguments(
        turn, profile, chat, thinking=is_thinking, has_two_passes=has_two_passes
    )
    return EngineRequest(
        chat=chat,
        parser=parsers[name] if tools else None,
        tools_in_text=tools_in_text,
        call_format=name if name in PARSER_FACTORIES else "hermes",
        forced_call=call,
        generates_argument=grammar is not None,
        constraint=constraint,
        call_opening=call_opening,
        sampling=_select_sampling(turn, profile, supported),
        stop=tuple(turn.sampling.get("stop") or ()),
        block_stop=block_stop_of(name) if tools and is_single_block and grammar is None else None,
        top_logprobs=_read_top_logprobs(turn.sampling),
        thinking_budget=resolve_thinking_budget(turn, profile) if has_two_passes else None,
        losses=tuple(dict.fromkeys(losses)),
    )


def _build_chat(turn: Turn, profile: Profile) -> LoweredRequest:
    """Returns the part of a chat body that prompts are rendered from. With `tool_choice: none` it has no tools."""
    extra = {name: value for name, value in turn.extra.items() if name in _TEMPLATE_EXTRAS}
    sampling = {name: value for name, value in turn.sampling.items() if name == "n"}
    prompt_turn = replace(turn, reasoning=None, thinking=None, text_format=None, verbosity=None, max_output_tokens=None)
    prompt_turn = replace(prompt_turn, stream=False, sampling=sampling, extra=extra)
    extra_params = _TEMPLATE_EXTRAS & profile.extra_params
    chat_profile = replace(profile, forced_tool="named", text_tool_calls="none", extra_params=extra_params)
    body, losses = lower(prompt_turn, chat_profile)
    names = ("messages", "chat_template_kwargs") if body.get("tool_choice") == "none" else _PROMPT_FIELDS
    return LoweredRequest({name: body[name] for name in names if name in body}, losses)


def list_lost_params(turn: Turn, honoured: Container[str]) -> list[str]:
    """Returns the parameters of a turn that an engine does not have and that are set to more than their default.

    `honoured` are the sampling parameters that it has. Parameters that no API defines are not looked at.
    """
    lost: list[str] = []
    if turn.verbosity is not None:
        lost.append("text.verbosity")
    if (turn.text_format or {}).get("description"):
        lost.append("text.format.description")
    for name, value in turn.sampling.items():
        is_default = value in ("", {}) or value is False or (name == "service_tier" and value in ("auto", "default"))
        if not is_default and name not in honoured:
            lost.append(name)
    return lost


def _list_losses(turn: Turn, profile: Profile, supported: frozenset[str]) -> list[Loss]:
    supported_keys = {"effort", "max_tokens"} if profile.two_pass != "off" else {"effort"}
    reasoning = {
        key: value for key, value in (turn.reasoning or {}).items() if value is not None and key not in supported_keys
    }
    lost = list_lost_params(turn, _SEPARATE_PARAMETERS | supported)
    for name, value in turn.extra.items():
        is_honoured = (
            name in profile.extra_params
            and name in (_TEMPLATE_EXTRAS | CONSTRAINT_FIELDS | supported)
            and name != THINKING_BUDGET_PARAM
        )
        if value is not None and not is_honoured:
            lost.append(name)
    losses = [*find_reasoning_losses(reasoning), *(Loss(name, "dropped") for name in lost)]
    if profile.thinking_switch != "chat_template_kwargs" and profile.two_pass != "on":
        losses += find_thinking_losses(turn.thinking, (turn.reasoning or {}).get("effort"))
    return losses


def _select_sampling(turn: Turn, profile: Profile, supported: frozenset[str]) -> Mapping[str, Any]:
    requested = {**turn.sampling, **{name: value for name, value in turn.extra.items() if name in profile.extra_params}}
    names = supported - _SEPARATE_PARAMETERS - {THINKING_BUDGET_PARAM}
    sampling = {name: value for name, value in requested.items() if name in names and value is not None}
    if profile.two_pass != "engine" or not may_think(turn):
        return sampling
    if THINKING_BUDGET_PARAM not in supported:
        raise Unrepresentable("this model's engine cannot enforce a thinking budget in one pass", param="reasoning")
    return {**sampling, THINKING_BUDGET_PARAM: resolve_thinking_budget(turn, profile)}


def _read_top_logprobs(sampling: Mapping[str, Any]) -> int | None:
    """Returns the number of alternatives. Either of `logprobs` and `top_logprobs` requests log probabilities."""
    alternatives = sampling.get("top_logprobs")
    return int(alternatives or 0) if sampling.get("logprobs") or alternatives else None


def _template_arguments(turn: Turn, profile: Profile, chat: Json, *, thinking: bool, has_two_passes: bool) -> Json:
    """Returns the arguments of the template. The client's own `chat_template_kwargs` override arguments that follow
    from its other parameters."""
    arguments: Json = {}
    has_switch = profile.thinking_switch == "chat_template_kwargs"
    if has_two_passes or (has_switch and (turn.thinking is not None or not thinking)):
        arguments["enable_thinking"] = thinking
    effort = (turn.reasoning or {}).get("effort")
    if effort not in (None, "none") and not has_two_passes:
        arguments["reasoning_effort"] = effort
    return {**arguments, **(chat.get("chat_template_kwargs") or {})}


def _build_forced_call(parser: str, tools: Sequence[Json], choice: str | Json) -> ForcedCall:
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        tools = [tool for tool in tools if tool["function"]["name"] == name]
    call = force_call(parser, tools)
    if call is None:
        raise Unrepresentable(
            f"calls in the format {parser!r} cannot be forced: use tool_choice auto", param="tool_choice"
        )
    return call


def _find_input_grammar(turn: Turn, tools: Sequence[Json], choice: str | Json) -> tuple[str, OutputConstraint] | None:
    """Returns the function that must be called and the constraint on its input, if it stands for a custom tool with a
    grammar."""
    names = [choice["function"]["name"]] if isinstance(choice, dict) else [tool["function"]["name"] for tool in tools]
    for name in names:
        if (grammar := turn.input_grammars.get(name)) is not None:
            is_regex = grammar.get("syntax") == "regex"
            definition = grammar["definition"]
            return name, OutputConstraint(regex=definition) if is_regex else OutputConstraint(lark=definition)
    return None
