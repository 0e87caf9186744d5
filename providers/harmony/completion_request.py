"""Builds the request to llama-server's `/completion` for a turn: the prompt's tokens, sampling, and the grammar."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from providers.engines.generation_request import list_lost_params
from providers.engines.servers.llama_server import LLAMA_PARAMETERS
from providers.harmony.encoding import Encoding
from providers.harmony.grammar import HarmonyGrammar
from providers.harmony.prompt import (
    HarmonyEffort,
    build_empty_thinking,
    build_prefill,
    render_conversation,
    text_of_message,
)
from translation.chat.upstream.lower import lower
from translation.errors import Unrepresentable
from translation.lowering.reasoning import find_reasoning_losses, may_think, render_past_reasoning
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_EFFORT_LEVELS: Final[Mapping[str, HarmonyEffort]] = {
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
"""`reasoning.effort` -> the effort in gpt-oss's system message."""

_HONOURED_PARAMETERS: Final = frozenset({"stop", "n", *LLAMA_PARAMETERS})


class CompletionRequest(NamedTuple):
    body: Json
    """The body of `POST /completion`."""
    prefill: Sequence[int]
    """The end of the prompt that already belongs to the assistant's reply."""
    stop: Sequence[str]
    losses: Sequence[Loss]


def build_completion_request(turn: Turn, profile: Profile, encoding: Encoding) -> CompletionRequest:
    """Builds the request without I/O.

    Raises Unrepresentable for a part of the turn without which the answer would mean something else, and
    InvalidRequest.
    """
    losses = _list_losses(turn, profile)
    items, open_thinking = _split_open_thinking(turn.items, losses)
    body, lowering_losses = lower(_strip_parameters(turn, items), _build_harmony_profile(profile))
    losses += lowering_losses
    messages: list[Json] = body["messages"]
    open_answer: str | None = None
    if open_thinking is None and messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
        last = messages.pop()
        open_answer, open_thinking = text_of_message(last), last.get("reasoning_content")
    choice = body.get("tool_choice", "auto")
    tools: Sequence[Json] = () if choice == "none" else body.get("tools", ())
    answer_schema = _find_answer_schema(turn.text_format)
    is_thinking = may_think(turn)
    trained_names = turn.trained_names
    prompt = render_conversation(encoding, messages, tools, _choose_effort(turn, losses), answer_schema, trained_names)
    prefill = build_prefill(encoding, open_thinking, open_answer)
    if not prefill and not is_thinking:
        prefill = build_empty_thinking(encoding)
    completion: Json = {
        "model": turn.model,
        "prompt": [*prompt, *prefill],
        "stream": turn.stream,
        "return_tokens": True,
        "cache_prompt": True,
        **_select_sampling(turn, profile),
    }
    if turn.max_output_tokens is not None:
        completion["n_predict"] = turn.max_output_tokens
    if answer_schema is not None and open_answer is not None:
        # The grammar would have to begin in the middle of the JSON.
        message = (
            "this model cannot continue an assistant message with a required format: end the input with a user message"
        )
        raise Unrepresentable(message, param="text.format")
    if tools or answer_schema is not None:
        forced_name = choice["function"]["name"] if isinstance(choice, dict) else None
        allowed_tools = [tool for tool in tools if forced_name in (None, tool["function"]["name"])]
        grammar = HarmonyGrammar(
            encoding.control_tokens,
            allowed_tools,
            answer_schema=answer_schema,
            must_call=choice not in ("auto", "none"),
            may_think=is_thinking,
            begun="answer" if open_answer is not None else "thinking" if open_thinking is not None else None,
            trained_names=trained_names,
        )
        completion["grammar"] = grammar.text
        losses += _list_grammar_losses(grammar.unenforced, turn.tools)
    return CompletionRequest(completion, prefill, tuple(turn.sampling.get("stop") or ()), tuple(dict.fromkeys(losses)))


def _strip_parameters(turn: Turn, items: Sequence[Item]) -> Turn:
    """Returns the turn with only the parts that are lowered to messages and tools."""
    return replace(
        turn,
        items=items,
        reasoning=None,
        thinking=None,
        text_format=None,
        verbosity=None,
        max_output_tokens=None,
        parallel_tool_calls=None,
        stream=False,
        sampling={"n": turn.sampling["n"]} if "n" in turn.sampling else {},
        extra={},
    )


def _build_harmony_profile(profile: Profile) -> Profile:
    return replace(
        profile,
        forced_tool="named",
        text_tool_calls="none",
        tool_parser="openai",
        replay_reasoning="reasoning_content",
        extra_params=frozenset(),
    )


def _split_open_thinking(items: Sequence[Item], losses: list[Loss]) -> tuple[Sequence[Item], str | None]:
    """Splits reasoning at the end of the input, which the model shall continue. Returns the items before it, and its
    text."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    if end == len(items):
        return items, None
    thinking = "\n\n".join(filter(None, map(render_past_reasoning, items[end:])))
    if not thinking:
        losses.append(Loss("input", "reasoning dropped"))
    return items[:end], thinking or None


def _find_answer_schema(text_format: Json | None) -> Json | None:
    match (text_format or {}).get("type", "text"):
        case "text":
            return None
        case "json_object":
            return {"type": "object"}
        case "json_schema":
            return (text_format or {}).get("schema") or {}
        case kind:
            raise Unrepresentable(f"this model does not support the text format {kind!r}", param="text.format.type")


def _choose_effort(turn: Turn, losses: list[Loss]) -> HarmonyEffort:
    if turn.thinking is False:
        return "low"
    effort = (turn.reasoning or {}).get("effort")
    if effort is None:
        return "medium"
    level = _EFFORT_LEVELS.get(effort, "medium")
    if effort not in (level, "none"):
        losses.append(Loss("reasoning.effort", f"{effort} as {level}"))
    return level


def _select_sampling(turn: Turn, profile: Profile) -> Json:
    extra = {name: value for name, value in turn.extra.items() if name in profile.extra_params and value is not None}
    return {
        LLAMA_PARAMETERS[name]: value for name, value in {**turn.sampling, **extra}.items() if name in LLAMA_PARAMETERS
    }


def _list_losses(turn: Turn, profile: Profile) -> list[Loss]:
    lost = list_lost_params(turn, _HONOURED_PARAMETERS)
    for name, value in turn.extra.items():
        if value is not None and not (name in profile.extra_params and name in LLAMA_PARAMETERS):
            lost.append(name)
    reasoning = {key: value for key, value in (turn.reasoning or {}).items() if value is not None and key != "effort"}
    return [*find_reasoning_losses(reasoning), *(Loss(name, "dropped") for name in lost)]


def _list_grammar_losses(unenforced: Mapping[str, set[str]], tools: Sequence[Json]) -> list[Loss]:
    params = {tool["name"]: f"tools[{index}].parameters" for index, tool in enumerate(tools)}
    return [
        Loss(params[name] if name else "text.format.schema", f"{', '.join(sorted(keywords))} not enforced")
        for name, keywords in unenforced.items()
    ]
