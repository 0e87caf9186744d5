"""A turn as llama-server's `/completion` is asked it: tokens, what samples from them, and what may follow them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from providers.engines.servers.llama_server import LLAMA_PARAMETERS
from providers.engines.thinking_budget import may_think
from providers.harmony.encoding import Encoding
from providers.harmony.grammar import HarmonyGrammar
from providers.harmony.prompt import (
    HarmonyEffort,
    build_empty_thought,
    build_prefill,
    render_conversation,
    text_of_message,
)
from translation.chat.lowering.lower import lower
from translation.errors import Unrepresentable
from translation.lowering.past_reasoning import past_reasoning_text
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
"""`reasoning.effort` -> what gpt-oss is told of it."""

_HANDLED_PARAMETERS: Final = frozenset({"stop", "n"})


class CompletionRequest(NamedTuple):
    body: Json
    """For `POST /completion`."""
    prefill: Sequence[int]
    """The end of the prompt that is the beginning of the reply."""
    stop: Sequence[str]
    losses: Sequence[Loss]


def build_completion_request(turn: Turn, profile: Profile, encoding: Encoding) -> CompletionRequest:
    """No I/O. Raises Unrepresentable for what would change the answer's meaning if it were left out, InvalidRequest."""
    losses = _losses_of(turn, profile)
    items, open_thought = _split_open_thought(turn.items, losses)
    body, lowered = lower(_strip_parameters(turn, items), _harmony_profile(profile))
    losses += lowered
    messages: list[Json] = body["messages"]
    open_answer: str | None = None
    if open_thought is None and messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
        last = messages.pop()
        open_answer, open_thought = text_of_message(last), last.get("reasoning_content")
    choice = body.get("tool_choice", "auto")
    tools: Sequence[Json] = () if choice == "none" else body.get("tools", ())
    answer = _answer_schema_of(turn.text_format)
    is_thinking = may_think(turn)
    prompt = render_conversation(encoding, messages, tools, _effort_of(turn, losses), answer)
    prefill = build_prefill(encoding, open_thought, open_answer)
    if not prefill and not is_thinking:
        prefill = build_empty_thought(encoding)
    completion: Json = {
        "model": turn.model,
        "prompt": [*prompt, *prefill],
        "stream": turn.stream,
        "return_tokens": True,
        "cache_prompt": True,
        **_sampling_of(turn, profile),
    }
    if turn.max_output_tokens is not None:
        completion["n_predict"] = turn.max_output_tokens
    is_open = open_thought is not None or open_answer is not None
    if (tools or answer is not None) and is_open:
        # A grammar would begin in the middle of a message.
        if answer is not None or choice not in ("auto", "none"):
            message = "this model cannot go on with what it has begun and be held to a form: end the input with a user"
            raise Unrepresentable(message, param="text.format" if answer is not None else "tool_choice")
        losses.append(Loss("tools", "arguments not enforced"))
    elif tools or answer is not None:
        named = choice["function"]["name"] if isinstance(choice, dict) else None
        callable_now = [tool for tool in tools if named in (None, tool["function"]["name"])]
        grammar = HarmonyGrammar(
            encoding.control_tokens,
            callable_now,
            answer_schema=answer,
            must_call=choice not in ("auto", "none"),
            may_think=is_thinking,
        )
        completion["grammar"] = grammar.text
        losses += _grammar_losses(grammar.unenforced, turn.tools)
    return CompletionRequest(completion, prefill, tuple(turn.sampling.get("stop") or ()), tuple(dict.fromkeys(losses)))


def _strip_parameters(turn: Turn, items: Sequence[Item]) -> Turn:
    """What is said in messages and tools."""
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


def _harmony_profile(profile: Profile) -> Profile:
    return replace(
        profile,
        forced_tool="named",
        text_tool_calls="none",
        tool_parser="openai",
        replay_reasoning="reasoning_content",
        extra_params=frozenset(),
    )


def _split_open_thought(items: Sequence[Item], losses: list[Loss]) -> tuple[Sequence[Item], str | None]:
    """The items before a thought that the model is to go on with, and the thought."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    if end == len(items):
        return items, None
    thought = "\n\n".join(filter(None, map(past_reasoning_text, items[end:])))
    if not thought:
        losses.append(Loss("input", "reasoning dropped"))
    return items[:end], thought or None


def _answer_schema_of(text_format: Json | None) -> Json | None:
    match (text_format or {}).get("type", "text"):
        case "text":
            return None
        case "json_object":
            return {"type": "object"}
        case "json_schema":
            return (text_format or {}).get("schema") or {}
        case kind:
            raise Unrepresentable(f"this model cannot be held to the text format {kind!r}", param="text.format.type")


def _effort_of(turn: Turn, losses: list[Loss]) -> HarmonyEffort:
    if turn.thinking is False:
        return "low"
    effort = (turn.reasoning or {}).get("effort")
    if effort is None:
        return "medium"
    level = _EFFORT_LEVELS.get(effort, "medium")
    if effort not in (level, "none"):
        losses.append(Loss("reasoning.effort", f"{effort} as {level}"))
    return level


def _sampling_of(turn: Turn, profile: Profile) -> Json:
    extra = {name: value for name, value in turn.extra.items() if name in profile.extra_params and value is not None}
    return {
        LLAMA_PARAMETERS[name]: value for name, value in {**turn.sampling, **extra}.items() if name in LLAMA_PARAMETERS
    }


def _losses_of(turn: Turn, profile: Profile) -> list[Loss]:
    lost = [f"reasoning.{key}" for key, said in (turn.reasoning or {}).items() if said is not None and key != "effort"]
    if turn.verbosity is not None:
        lost.append("text.verbosity")
    if (turn.text_format or {}).get("description"):
        lost.append("text.format.description")
    for name, value in turn.sampling.items():
        is_plain = value in ("", {}) or value is False or (name == "service_tier" and value in ("auto", "default"))
        if not is_plain and name not in LLAMA_PARAMETERS and name not in _HANDLED_PARAMETERS:
            lost.append(name)
    for name, value in turn.extra.items():
        if value is not None and not (name in profile.extra_params and name in LLAMA_PARAMETERS):
            lost.append(name)
    return [Loss(name, "dropped") for name in lost]


def _grammar_losses(unenforced: Mapping[str, set[str]], tools: Sequence[Json]) -> list[Loss]:
    params = {tool["name"]: f"tools[{place}].parameters" for place, tool in enumerate(tools)}
    return [
        Loss(params[name] if name else "text.format.schema", f"{', '.join(sorted(keywords))} not enforced")
        for name, keywords in unenforced.items()
    ]
