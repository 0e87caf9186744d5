"""Parameters of sampling, most of which are the runner's options, and what else a request may say."""

from typing import Final

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

_OPTION_PARAMS: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop")
"""Parameters whose options are called the same."""

_DROPPED_PARAMS: Final = (
    "service_tier",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "store",
)
"""Parameters that Ollama has no word for, and an answer survives without."""

_TOP_LEVEL_PARAMS: Final = frozenset({"keep_alive", "truncate", "shift"})
"""Fields of the request itself; anything else that a profile passes on is an option."""

_OPTION_ALIASES: Final = {"repetition_penalty": "repeat_penalty"}
"""The name that other open servers have for an option -> Ollama's."""


def lower_options(turn: Turn, profile: Profile, losses: list[Loss]) -> Json:
    """`options`, `logprobs`, and what the profile passes on. Raises Unrepresentable for what the answer depends on."""
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
