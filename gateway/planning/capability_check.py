"""Checks a turn against the capabilities of its upstream, before anything is sent."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from gateway.planning.unreported_params import requests_tier
from providers.base import Capabilities, Dialect
from translation.errors import Unrepresentable
from translation.representation.loss import Loss
from translation.representation.turn import Turn

_MEDIA_CAPABILITIES = {"input_image": "images", "input_audio": "audio", "input_file": "files"}
"""Maps the type of a content part to the capability it needs."""

LOGPROBS_PARAMS: Final[Mapping[Dialect, str]] = {
    "responses": "include",
    "chat": "logprobs",
    "messages": "logprobs",
    "gemini": "generationConfig.responseLogprobs",
    "ollama": "logprobs",
}
"""Maps each API to its parameter that requests log probabilities."""

_PREFILL_REFUSED: Final = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
"""The message of the Messages API itself, whose newer models refuse prefill too."""

_CONTINUABLE: Final = frozenset({"messages", "gemini", "ollama"})
"""The APIs in which a last message of the assistant asks the model to continue it."""

_PARAM_NAMES: dict[str, dict[Dialect, str]] = {
    "text_format": {
        "responses": "text.format",
        "chat": "response_format",
        "messages": "output_config.format",
        "gemini": "generationConfig.responseMimeType",
        "ollama": "format",
    },
    "reasoning": {
        "responses": "reasoning",
        "chat": "reasoning_effort",
        "messages": "thinking",
        "gemini": "generationConfig.thinkingConfig",
        "ollama": "think",
    },
    "thinking": {
        "responses": "thinking",
        "chat": "thinking",
        "messages": "thinking",
        "gemini": "generationConfig.thinkingConfig",
        "ollama": "think",
    },
    "max_output": {
        "responses": "max_output_tokens",
        "chat": "max_completion_tokens",
        "messages": "max_tokens",
        "gemini": "generationConfig.maxOutputTokens",
        "ollama": "options.num_predict",
    },
    "items": {
        "responses": "input",
        "chat": "messages",
        "messages": "messages",
        "gemini": "contents",
        "ollama": "messages",
    },
}
"""Maps a field of Turn to its parameter in the client's request, by API."""


def apply_capabilities(
    turn: Turn, capabilities: Capabilities, dialect: Dialect, losses: list[Loss], *, relayed: bool
) -> tuple[Turn, set[str]]:
    """Returns the turn without parameters that its upstream cannot honour, and the top-level keys to remove from a
    relayed body.

    Parameters without which the reply is still useful are dropped and added to `losses`. For others it raises
    Unrepresentable with the client's parameter. `dialect` is the dialect of the endpoint. `relayed` means that the
    upstream gets the client's own body.
    """
    for capability, param, feature in _required_capabilities(turn, capabilities, dialect):
        if not getattr(capabilities, capability):
            if capability == "prefill":
                raise Unrepresentable(_PREFILL_REFUSED, param=param)
            removed = feature if "[" in param else param
            raise Unrepresentable(f"the model's upstream does not support {feature}; leave out {removed}", param=param)
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
    if requests_tier(turn.sampling) and not capabilities.service_tiers:
        losses.append(Loss("service_tier", "dropped"))
        dropped.add("service_tier")
        turn = replace(turn, sampling={name: turn.sampling[name] for name in turn.sampling if name != "service_tier"})
    if turn.parallel_tool_calls and turn.tools and not capabilities.parallel_tools:
        losses.append(Loss("parallel_tool_calls", "dropped"))
        dropped.add("parallel_tool_calls")
        turn = replace(turn, parallel_tool_calls=None)
    if turn.reasoning and not capabilities.reasoning:
        if turn.reasoning.get("effort") != "none":
            losses.append(Loss(_PARAM_NAMES["reasoning"][dialect], "dropped"))
        dropped |= {"reasoning", "reasoning_effort"} if dialect != "messages" else {"thinking"}
        turn = replace(turn, reasoning=None)
    if turn.thinking is not None and not capabilities.reasoning:
        if turn.thinking:
            losses.append(Loss(_PARAM_NAMES["thinking"][dialect], "dropped"))
        turn = replace(turn, thinking=None)
    return turn, dropped


def _required_capabilities(turn: Turn, capabilities: Capabilities, dialect: Dialect) -> Iterator[tuple[str, str, str]]:
    """Yields (capability, the client's parameter, the feature's name in an error message).

    The items are searched only for media that the upstream does not support.
    """
    if turn.stream:
        yield "streaming", "stream", "streaming"
    if turn.tools and turn.tool_choice != "none":
        yield "tools", "tools", "tools"
    if turn.text_format and turn.text_format.get("type") != "text":
        yield "json_schema", _PARAM_NAMES["text_format"][dialect], "structured output"
    if turn.sampling.get("logprobs"):
        yield "logprobs", LOGPROBS_PARAMS[dialect], "log probabilities"
    if dialect in _CONTINUABLE and turn.items and turn.items[-1].get("role") == "assistant":
        yield "prefill", _PARAM_NAMES["items"][dialect], "prefill"
    missing = {kind: name for kind, name in _MEDIA_CAPABILITIES.items() if not getattr(capabilities, name)}
    for index, item in enumerate(turn.items if missing else ()):
        parts = item.get("content") if item["type"] == "message" else item.get("output")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and (capability := missing.get(part.get("type", ""))):
                yield capability, f"{_PARAM_NAMES['items'][dialect]}[{index}]", capability
