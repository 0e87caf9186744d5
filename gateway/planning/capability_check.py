"""Holds a turn against what the upstream can do, before anything is sent."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from providers.base import Capabilities, Dialect
from translation.errors import Unrepresentable
from translation.representation.loss import Loss
from translation.representation.turn import Turn

_MEDIA_CAPABILITIES = {"input_image": "images", "input_audio": "audio", "input_file": "files"}
"""Part type -> the capability it needs."""

LOGPROBS_PARAMS: Final[Mapping[Dialect, str]] = {"responses": "include", "chat": "logprobs"}
"""The parameter of each API that asks for log probabilities."""

_PARAM_NAMES: dict[str, dict[Dialect, str]] = {
    "text_format": {"responses": "text.format", "chat": "response_format"},
    "reasoning": {"responses": "reasoning", "chat": "reasoning_effort"},
    "max_output": {"responses": "max_output_tokens", "chat": "max_completion_tokens"},
    "items": {"responses": "input", "chat": "messages"},
}
"""Where a field of Turn stands in the client's own request."""


def apply_capabilities(
    turn: Turn, capabilities: Capabilities, dialect: Dialect, losses: list[Loss], *, relayed: bool
) -> tuple[Turn, set[str]]:
    """What of a turn its upstream can honour, and top-level keys of the client's body that may not go out.

    Drops what the answer survives. Raises Unrepresentable, naming the client's parameter, for what it would not.

    `dialect` is the endpoint's; `relayed`: the body goes to the upstream as the client wrote it.
    """
    for needed, param, what in _required_capabilities(turn, dialect):
        if not getattr(capabilities, needed):
            message = what if "[" in param else param
            raise Unrepresentable(f"the model's upstream does not support {what}; leave out {message}", param=param)
    if not (relayed and capabilities.choices) and (turn.sampling.get("n") or 1) > 1:
        raise Unrepresentable("this model gives one choice per request: send n requests instead", param="n")
    window = capabilities.max_context_window
    if window is not None and (max_output := turn.max_output_tokens or 0) > window:
        param = _PARAM_NAMES["max_output"][dialect]
        message = (
            f"'{param}' is {max_output}, and the model's context is {window} tokens for input and answer: ask for fewer"
        )
        raise Unrepresentable(message, param=param)
    dropped: set[str] = set()
    if turn.parallel_tool_calls and turn.tools and not capabilities.parallel_tools:
        losses.append(Loss("parallel_tool_calls", "dropped"))
        dropped.add("parallel_tool_calls")
        turn = replace(turn, parallel_tool_calls=None)
    if turn.reasoning and not capabilities.reasoning:
        if turn.reasoning.get("effort") != "none":
            losses.append(Loss(_PARAM_NAMES["reasoning"][dialect], "dropped"))
        dropped |= {"reasoning", "reasoning_effort"}
        turn = replace(turn, reasoning=None)
    if turn.thinking is not None and not capabilities.reasoning:
        if turn.thinking:
            losses.append(Loss("thinking", "dropped"))
        turn = replace(turn, thinking=None)
    return turn, dropped


def _required_capabilities(turn: Turn, dialect: Dialect) -> Iterator[tuple[str, str, str]]:
    """(capability, the client's parameter, what it asks for in words)."""
    if turn.stream:
        yield "streaming", "stream", "streaming"
    if turn.tools and turn.tool_choice != "none":
        yield "tools", "tools", "tools"
    if turn.text_format and turn.text_format.get("type") != "text":
        yield "json_schema", _PARAM_NAMES["text_format"][dialect], "structured output"
    if turn.sampling.get("logprobs"):
        yield "logprobs", LOGPROBS_PARAMS[dialect], "log probabilities"
    for index, item in enumerate(turn.items):
        parts = item.get("content") if item["type"] == "message" else item.get("output")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and (needed := _MEDIA_CAPABILITIES.get(part.get("type", ""))):
                yield needed, f"{_PARAM_NAMES['items'][dialect]}[{index}]", needed
