"""Lowers what a turn says about thinking to the parameters of a chat upstream: an effort, a budget, and a switch."""

from collections.abc import Callable, Mapping
from typing import Final

from translation.lowering.reasoning import find_reasoning_losses, find_thinking_losses, with_effort_for_budget
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile


def lower_reasoning(reasoning: Json, thinking: bool | None, profile: Profile, losses: list[Loss]) -> Json:
    """Returns the parameters for the effort and the budget. What the upstream has no field for is a loss."""
    if profile.effort_field == "reasoning_effort" and profile.thinking_switch == "none":
        reasoning = with_effort_for_budget(reasoning, thinking, losses)
    remaining = {key: value for key, value in reasoning.items() if value is not None}
    body: Json = {}
    if profile.effort_field == "reasoning_effort" and "effort" in remaining:
        body["reasoning_effort"] = remaining.pop("effort")
    if profile.effort_field == "reasoning":
        body["reasoning"] = {key: remaining.pop(key) for key in ("effort", "max_tokens") if key in remaining}
    losses += find_reasoning_losses(remaining)
    return {key: value for key, value in body.items() if value}


def switch_thinking(body: Json, thinking: bool | None, profile: Profile, losses: list[Loss]) -> None:
    """Turns thinking on or off in a chat body, in place, by the upstream's own switch.

    Without a switch this is a loss: the model thinks according to its effort, or by default. None leaves thinking to
    the model, unless the effort of the body is `none`.
    """
    if thinking is None:
        _switch_off_by_effort(body, profile)
    elif profile.thinking_switch == "none":
        reasoning = body.get("reasoning") or {}
        effort = body.get("reasoning_effort", reasoning.get("effort"))
        losses += find_thinking_losses(thinking, reasoning.get("max_tokens") if effort is None else effort)
    else:
        _SWITCHES[profile.thinking_switch](body, thinking)


def _switch_off_by_effort(body: Json, profile: Profile) -> None:
    """Turns thinking off by the switch if a chat body asks for no effort.

    llama.cpp and vLLM ignore the effort `none` in versions before summer 2026, and the model thinks. Other servers
    ignore every effort. The client's own arguments of the template count more.
    """
    if body.get("reasoning_effort") != "none":
        return
    if profile.thinking_switch == "chat_template_kwargs":
        arguments = body.get("chat_template_kwargs")
        if arguments is None or isinstance(arguments, dict):
            body["chat_template_kwargs"] = {"enable_thinking": False, **(arguments or {})}
    elif profile.thinking_switch == "thinking_type":
        _switch_by_type(body, thinking=False)


def _switch_by_template(body: Json, thinking: bool) -> None:
    body["chat_template_kwargs"] = {**(body.get("chat_template_kwargs") or {}), "enable_thinking": thinking}


def _switch_by_reasoning(body: Json, thinking: bool) -> None:
    body["reasoning"] = {**(body.get("reasoning") or {}), "enabled": thinking}


def _switch_by_type(body: Json, thinking: bool) -> None:
    body["thinking"] = {"type": "enabled" if thinking else "disabled"}


_SWITCHES: Final[Mapping[str, Callable[[Json, bool], None]]] = {
    "chat_template_kwargs": _switch_by_template,
    "reasoning_enabled": _switch_by_reasoning,
    "thinking_type": _switch_by_type,
}
"""Profile's `thinking_switch` -> the function that sets it in a body."""
