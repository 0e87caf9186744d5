"""Writes what a relayed request says about thinking in the parameters of its upstream.

Servers ignore the parameters of others without an error, and the model would think as if nothing had been said. So a
relay sends what a translation would send.
"""

from typing import Final

from translation.chat.client.param_names import find_client_name
from translation.chat.client.schema import find_unknown_in_request
from translation.chat.client.thinking_params import LIFTED_REASONING, THINKING_PARAMS, lift_thinking
from translation.chat.upstream.lower_thinking import find_effort_losses, lower_reasoning, switch_thinking
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.request_defaults import read_switch

_WRITTEN_KEYS: Final = frozenset({*LIFTED_REASONING, "enabled"}) - {"summary"}
"""The keys of `reasoning` that lowering writes."""


def relay_thinking(relayed: Json, profile: Profile, losses: list[Loss]) -> None:
    """Replaces the parameters about thinking of a body without nulls by those of the upstream, in place.

    An object is sent with all its keys if the upstream has it: `reasoning` by its `effort_field`, and `thinking` by its
    `thinking_switch`. What is not sent is added to `losses`, by the client's names.
    """
    params = {name: value for name, value in relayed.items() if name in THINKING_PARAMS}
    for name in params:
        del relayed[name]
    turn_losses: list[Loss] = []
    unsent = dict(params)
    given = params.get("thinking")
    sends_object = isinstance(given, dict) and profile.thinking_switch == "thinking_type"
    if sends_object:
        del unsent["thinking"]
        params["thinking"] = read_switch(given)
    thinking, lifted = lift_thinking(params, losses)
    reasoning = lifted or {}
    others: Json = {}
    if profile.effort_field == "reasoning":
        options = unsent.pop("reasoning", {})
        others = {key: value for key, value in options.items() if value is not None and key not in _WRITTEN_KEYS}
        reasoning.pop("summary", None)
    effort = reasoning.get("effort")
    relayed |= lower_reasoning(reasoning, thinking, profile, turn_losses)
    if others:
        relayed["reasoning"] = others | relayed.get("reasoning", {})
    if not sends_object:
        switch_thinking(relayed, thinking, effort, profile, turn_losses)
    else:
        relayed["thinking"] = given
        if thinking != read_switch(given):
            losses.append(Loss("reasoning.enabled", "dropped"))
        turn_losses += find_effort_losses(relayed, effort, profile)
    losses += [Loss(find_client_name(loss.param, params), loss.effect) for loss in turn_losses]
    losses += [Loss(path, "dropped") for path in find_unknown_in_request(unsent)]
