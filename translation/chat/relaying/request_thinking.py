"""Writes what a relayed request says about thinking in the parameters of its upstream.

Servers ignore the parameters of others without an error, and the model would think as if nothing had been said. So a
relay sends what a translation would send.
"""

from typing import Final

from translation.chat.client.param_names import PARAM_NAMES
from translation.chat.client.schema import find_unknown_in_request
from translation.chat.client.thinking_params import LIFTED_REASONING, THINKING_PARAMS, lift_thinking
from translation.chat.upstream.lower_thinking import lower_reasoning, switch_thinking
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.request_defaults import read_switch

_WRITTEN_KEYS: Final = frozenset({*LIFTED_REASONING, "enabled"}) - {"summary"}
"""The keys of `reasoning` that lowering writes."""

_OBJECT_SWITCHES: Final = ("none", "thinking_type")
"""Values of `thinking_switch` with which the client's own object `thinking` is sent as it came."""


def relay_thinking(relayed: Json, profile: Profile, losses: list[Loss]) -> None:
    """Replaces the parameters about thinking of a body without nulls by those of the upstream, in place.

    Two objects are sent with all their keys: `reasoning` if the upstream has this object, and `thinking`, which is the
    upstream's own, unless it has another switch. What is not sent is added to `losses`, by the client's names.
    """
    params = {name: value for name, value in relayed.items() if name in THINKING_PARAMS}
    for name in params:
        del relayed[name]
    turn_losses: list[Loss] = []
    unsent = dict(params)
    given = params.get("thinking")
    sends_object = isinstance(given, dict) and profile.thinking_switch in _OBJECT_SWITCHES
    if sends_object:
        del unsent["thinking"]
        params["thinking"] = read_switch(given)
    thinking, lifted = lift_thinking(params, turn_losses)
    reasoning = lifted or {}
    others: Json = {}
    if profile.effort_field == "reasoning":
        options = unsent.pop("reasoning", {})
        others = {key: value for key, value in options.items() if value is not None and key not in _WRITTEN_KEYS}
        reasoning.pop("summary", None)
    relayed |= lower_reasoning(reasoning, thinking, profile, turn_losses)
    if others:
        relayed["reasoning"] = others | relayed.get("reasoning", {})
    if not sends_object:
        switch_thinking(relayed, thinking, profile, turn_losses)
    else:
        relayed["thinking"] = given
        if thinking != read_switch(given):
            turn_losses.append(Loss("reasoning.enabled", "dropped"))
    losses += [Loss(_find_client_name(loss.param, params), loss.effect) for loss in turn_losses]
    losses += [Loss(path, "dropped") for path in find_unknown_in_request(unsent)]


def _find_client_name(param: str, params: Json) -> str:
    """Returns the client's name for a parameter of a turn."""
    name, dot, key = param.partition(".")
    return "".join(PARAM_NAMES.find(name, "", dot + key, params))
