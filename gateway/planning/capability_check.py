"""Checks a turn against the capabilities of its upstream, before anything is sent."""

from dataclasses import replace
from typing import Final

from gateway.planning.unreported_params import requests_tier
from gateway.replies.endpoints import Endpoint
from providers.base import Capabilities
from translation.decoding.context_overflow import build_limit_error
from translation.errors import Unrepresentable
from translation.lowering.reasoning import may_think
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_MEDIA_CAPABILITIES: Final = {"input_image": "images", "input_audio": "audio", "input_file": "files"}
"""Maps the type of a content part to the capability it needs."""

_PREFILL_REFUSED: Final = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)
"""The message of the Messages API itself, whose newer models refuse prefill too."""

_PREFILL_AFTER_THINKING_REFUSED: Final = (
    "This model thinks in a pass of its own before it answers, so it cannot continue an answer. The conversation must "
    "end with a user message, or thinking must be off."
)


def apply_capabilities(
    turn: Turn, capabilities: Capabilities, endpoint: Endpoint, losses: list[Loss], *, relayed: bool
) -> tuple[Turn, set[str]]:
    """Returns the turn without parameters that its upstream cannot honour, and the top-level keys to remove from a
    relayed body.

    Parameters without which the reply is still useful are dropped and added to `losses`. For others it raises
    Unrepresentable with the client's parameter. `endpoint` is the client's. `relayed` means that the upstream gets the
    client's own body.
    """
    _require_features(turn, capabilities, endpoint)
    names = endpoint.param_names
    if "n" in turn.sampling and not (relayed and capabilities.choices) and (turn.sampling.get("n") or 1) > 1:
        raise Unrepresentable("this model gives one choice per request: send n requests instead", param="n")
    max_output, window = turn.max_output_tokens, capabilities.max_context_window
    if max_output is not None and window is not None and max_output > window:
        raise build_limit_error(max_output, window, names.max_output)
    dropped: set[str] = set()
    if "service_tier" in turn.sampling and not capabilities.service_tiers and requests_tier(turn.sampling):
        losses.append(Loss("service_tier", "dropped"))
        dropped.add("service_tier")
        turn = replace(turn, sampling={name: turn.sampling[name] for name in turn.sampling if name != "service_tier"})
    if turn.parallel_tool_calls and turn.tools and not capabilities.parallel_tools:
        losses.append(Loss("parallel_tool_calls", "dropped"))
        dropped.add("parallel_tool_calls")
        turn = replace(turn, parallel_tool_calls=None)
    if turn.reasoning and not capabilities.reasoning:
        if turn.reasoning.get("effort") != "none":
            losses.append(Loss(names.reasoning, "dropped"))
        dropped.update(names.reasoning_keys)
        turn = replace(turn, reasoning=None)
    if turn.thinking is not None and not capabilities.reasoning:
        if turn.thinking:
            losses.append(Loss(names.thinking, "dropped"))
        turn = replace(turn, thinking=None)
    return turn, dropped


def require_continuable(turn: Turn, profile: Profile, endpoint: Endpoint) -> None:
    """Raises Unrepresentable for an answer that the client began if two passes would begin it anew, after thinking."""
    if profile.two_pass == "on" and _has_prefill(turn, endpoint) and may_think(turn):
        raise Unrepresentable(_PREFILL_AFTER_THINKING_REFUSED, param=endpoint.param_names.input)


def _has_prefill(turn: Turn, endpoint: Endpoint) -> bool:
    """Whether the client began the answer, in an API where the reply continues it."""
    return endpoint.request.continues_prefill and bool(turn.items) and turn.items[-1].get("role") == "assistant"


def _require_features(turn: Turn, can: Capabilities, endpoint: Endpoint) -> None:
    """Raises Unrepresentable for the first feature of the turn that the upstream does not have."""
    names = endpoint.param_names
    if turn.stream and not can.streaming:
        raise _build_refusal("streaming", "stream")
    if turn.tools and not can.tools and turn.tool_choice != "none":
        raise _build_refusal("tools", "tools")
    if turn.text_format and not can.json_schema and turn.text_format.get("type") != "text":
        raise _build_refusal("structured output", names.text_format)
    if not can.logprobs and turn.sampling.get("logprobs"):
        raise _build_refusal("log probabilities", names.logprobs)
    if endpoint.request.continues_prefill and not can.prefill and _has_prefill(turn, endpoint):
        raise Unrepresentable(_PREFILL_REFUSED, param=names.input)
    if can.images and can.audio and can.files:
        return
    for index, item in enumerate(turn.items):
        parts = item.get("content") if item["type"] == "message" else item.get("output")
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            capability = _MEDIA_CAPABILITIES.get(part.get("type", ""))
            if capability is not None and not getattr(can, capability):
                param = f"{names.input}[{index}]"
                message = f"the model's upstream does not support {capability}; leave out {capability}"
                raise Unrepresentable(message, param=param)


def _build_refusal(feature: str, param: str) -> Unrepresentable:
    return Unrepresentable(f"the model's upstream does not support {feature}; leave out {param}", param=param)
