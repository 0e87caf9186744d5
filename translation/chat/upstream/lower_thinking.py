"""Lowers what a turn says about thinking to the parameters of a chat upstream: an effort, a budget, and a switch.

Also recognizes requests that turn thinking off, because their replies begin with the answer.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from translation.errors import InvalidRequest
from translation.lowering.reasoning import find_reasoning_losses, find_thinking_losses, with_effort_for_budget
from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.request_defaults import read_switch

_NO_EFFORT: Final = "none"
"""The effort that turns thinking off."""

_TEMPLATE_FIELD: Final = "chat_template_kwargs"

_TEMPLATE_SWITCHES: Final = ("enable_thinking", "thinking")
"""Arguments of chat templates that turn thinking on and off. DeepSeek's templates have the second."""

_EFFORT_KEYS: Final = ("reasoning_effort", "effort", "reasoning_effort")
"""The keys of the effort in a body, in its `reasoning`, and in the arguments of its template."""

_THINKING_FIELDS: Final = frozenset({"thinking", "reasoning", "reasoning_effort", _TEMPLATE_FIELD})
"""Parameters of chat upstreams that may turn thinking off."""


def lower_reasoning(reasoning: Json, thinking: bool | None, profile: Profile, losses: list[Loss]) -> Json:
    """Returns the parameters for the effort and the budget. What the upstream has no field for is a loss.

    The effort `none` is no loss yet if the upstream has a switch: `switch_thinking` turns it off.
    """
    if profile.effort_field == "reasoning_effort" and profile.thinking_switch == "none":
        reasoning = with_effort_for_budget(reasoning, thinking, losses)
    remaining = {key: value for key, value in reasoning.items() if value is not None}
    body: Json = {}
    if profile.effort_field == "reasoning_effort" and "effort" in remaining:
        body["reasoning_effort"] = remaining.pop("effort")
    if profile.effort_field == "reasoning":
        body["reasoning"] = {key: remaining.pop(key) for key in ("effort", "max_tokens") if key in remaining}
    if remaining.get("effort") == _NO_EFFORT and profile.thinking_switch != "none":
        del remaining["effort"]
    losses += find_reasoning_losses(remaining)
    return {key: value for key, value in body.items() if value}


def switch_thinking(
    body: Json, thinking: bool | None, effort: str | None, profile: Profile, losses: list[Loss]
) -> None:
    """Turns thinking on or off in a chat body, in place, by the upstream's own switch.

    Without a switch this is a loss: the model thinks according to its effort, or by default. If `thinking` is None, the
    `effort` `none` turns thinking off, and any other leaves it to the model. llama.cpp and vLLM ignore that effort in
    versions before summer 2026, and the model thinks. Other servers ignore every effort. The client's own arguments of
    the template count more than it.
    """
    switch = _SWITCHES.get(profile.thinking_switch)
    if switch is None:
        reasoning = body.get("reasoning") or {}
        sent_effort = body.get("reasoning_effort", reasoning.get("effort"))
        losses += find_thinking_losses(thinking, reasoning.get("max_tokens") if sent_effort is None else sent_effort)
        return
    if thinking is not None:
        switch.write(body, thinking)
    elif effort == _NO_EFFORT and switch.read(body) is None:
        switch.write(body, False)
    losses += find_effort_losses(body, effort, profile)


def find_effort_losses(body: Json, effort: str | None, profile: Profile) -> list[Loss]:
    """Returns the loss of the effort `none` for an upstream that has a switch and no field for efforts, unless the
    switch in the body turns thinking off."""
    if effort != _NO_EFFORT or profile.effort_field != "none" or _SWITCHES[profile.thinking_switch].read(body) is False:
        return []
    return [Loss("reasoning.effort", "dropped")]


def find_thinking_off(body: Json) -> Literal["switch", "effort"] | None:
    """Returns by what a chat body turns thinking off; None if it does not.

    After a switch the chat template does not open the think tag. Some servers ignore the effort, which counts less.
    Raises InvalidRequest for arguments of the template that are no object.
    """
    if _THINKING_FIELDS.isdisjoint(body):
        return None
    switched = {switch.read(body) for switch in _SWITCHES.values()} - {None}
    if switched:
        return "switch" if False in switched else None
    objects = (body, mapping_or_empty(body.get("reasoning")), _read_template_arguments(body))
    is_off = any(each.get(key) == _NO_EFFORT for each, key in zip(objects, _EFFORT_KEYS, strict=True))
    return "effort" if is_off else None


def _read_template_arguments(body: Json) -> Json:
    """Returns the arguments of the chat template in a body. Raises InvalidRequest if they are no object."""
    arguments = body.get(_TEMPLATE_FIELD)
    if not isinstance(arguments, dict | None):
        message = f"Invalid type for '{_TEMPLATE_FIELD}': expected an object."
        raise InvalidRequest(message, param=_TEMPLATE_FIELD, code="invalid_type")
    return arguments or {}


def _read_template(body: Json) -> bool | None:
    arguments = _read_template_arguments(body)
    switched = [value for name in _TEMPLATE_SWITCHES if isinstance(value := arguments.get(name), bool)]
    return all(switched) if switched else None


def _write_template(body: Json, thinking: bool) -> None:
    arguments = _read_template_arguments(body)
    body[_TEMPLATE_FIELD] = {**arguments, "enable_thinking": thinking}
    if "thinking" in arguments:  # the template of such a request reads this one
        body[_TEMPLATE_FIELD]["thinking"] = thinking


def _read_reasoning(body: Json) -> bool | None:
    enabled = mapping_or_empty(body.get("reasoning")).get("enabled")
    return enabled if isinstance(enabled, bool) else None


def _write_reasoning(body: Json, thinking: bool) -> None:
    body["reasoning"] = {**(body.get("reasoning") or {}), "enabled": thinking}


def _read_type(body: Json) -> bool | None:
    kind = mapping_or_empty(body.get("thinking")).get("type")
    return read_switch({"type": kind}) if isinstance(kind, str) else None


def _write_type(body: Json, thinking: bool) -> None:
    body["thinking"] = {"type": "enabled" if thinking else "disabled"}


class _Switch(NamedTuple):
    """A parameter of chat upstreams that turns thinking on and off."""

    write: Callable[[Json, bool], None]
    """Turns thinking on or off in a body, in place."""
    read: Callable[[Json], bool | None]
    """Returns whether a body turns thinking on or off by it; None if it does neither."""


_SWITCHES: Final[Mapping[str, _Switch]] = {
    "chat_template_kwargs": _Switch(_write_template, _read_template),
    "reasoning_enabled": _Switch(_write_reasoning, _read_reasoning),
    "thinking_type": _Switch(_write_type, _read_type),
}
"""Profile's `thinking_switch` -> the parameter that it stands for."""
