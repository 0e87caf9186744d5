"""Lowers sampling parameters, most of which are options of Ollama's runner, and the extra parameters of a profile."""

from typing import Final

from translation.errors import Unrepresentable
from translation.lowering.unsupported import find_unknown_key_losses
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import SERVICE_PARAMS, Turn

_OPTION_PARAMS: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop")
"""Parameters that have an option of the same name."""

_DROPPED_PARAMS: Final = (*SERVICE_PARAMS, "store")
"""Parameters that Ollama does not have. Without them the meaning of the reply is the same."""

_TOP_LEVEL_PARAMS: Final = frozenset({"keep_alive", "truncate", "shift"})
"""Extra parameters that are keys of the request itself. All others are options."""

_OPTION_ALIASES: Final = {"repetition_penalty": "repeat_penalty"}
"""The name of an option at other open-source servers -> Ollama's."""


def lower_options(turn: Turn, profile: Profile, losses: list[Loss]) -> Json:
    """Returns `options`, `logprobs`, `top_logprobs` and the extra parameters of the profile as keys of a body.

    Losses are appended to `losses`. Raises Unrepresentable for `n` and `logit_bias`, because dropping them
    would change the reply.
    """
    sampling = turn.sampling
    if (sampling.get("n") or 1) != 1:
        raise Unrepresentable("this model answers with one choice at a time: leave out 'n'", param="n")
    if sampling.get("logit_bias"):
        raise Unrepresentable("this model's API has no token biases: leave out 'logit_bias'", param="logit_bias")
    losses += [Loss(name, "dropped") for name in _DROPPED_PARAMS if sampling.get(name)]
    body: Json = {}
    top_logprobs = sampling.get("top_logprobs")
    if sampling.get("logprobs") or top_logprobs:
        body["logprobs"] = True
        if top_logprobs is not None:
            body["top_logprobs"] = top_logprobs
    options = {name: sampling[name] for name in _OPTION_PARAMS if sampling.get(name) is not None}
    if turn.max_output_tokens is not None:
        options["num_predict"] = turn.max_output_tokens
    losses += find_unknown_key_losses(turn.unknown_keys)
    for key, value in turn.extra.items():
        if value is None:
            continue
        if key not in profile.extra_params:
            losses.append(Loss(key, "dropped"))
        elif key in _TOP_LEVEL_PARAMS:
            body[key] = value
        else:
            options.setdefault(_OPTION_ALIASES.get(key, key), value)
    return {**body, "options": options} if options else body
