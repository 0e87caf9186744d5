"""Translates vLLM's outputs to engine deltas."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from providers.engines.base import EngineDelta
from providers.errors import UpstreamBroken
from translation.representation.json_types import Json

_MIN_LOGPROB: Final = -9999.0
"""The smallest log probability that is reported, because JSON has no infinity. vLLM's own server uses the same
value."""

_FINISH_REASONS: Final[Mapping[str, Literal["stop", "length"]]] = {
    "stop": "stop",
    "length": "length",
    # Only for requests that set vLLM's parameters of repetition detection.
    "repetition": "stop",
}


def build_engine_delta(output: Any, *, alternatives: int | None, first: bool) -> EngineDelta:
    """Returns the delta of one RequestOutput. `alternatives` is the number of alternatives for each token; None: no log
    probabilities. `first`: it is the first output of the generation. Raises UpstreamBroken if the engine aborted the
    request."""
    (completion,) = output.outputs
    reason = completion.finish_reason
    if reason is not None and reason not in _FINISH_REASONS:
        raise UpstreamBroken(f"the engine aborted the request: {reason}")
    tokens = list(completion.token_ids)
    logprobs = None
    if alternatives is not None and completion.logprobs:
        logprobs = [_token_logprob(*pair, alternatives) for pair in zip(tokens, completion.logprobs, strict=True)]
    return EngineDelta(
        completion.text,
        tokens,
        logprobs,
        finish_reason=None if reason is None else _FINISH_REASONS[reason],
        stop_string=completion.stop_reason if isinstance(completion.stop_reason, str) else None,
        cached_tokens=output.num_cached_tokens if first else None,
    )


def _token_logprob(token: int, candidates: Mapping[int, Any], alternatives: int) -> Json:
    # vLLM puts the sampled token first, whatever its rank, and adds it if it is not among the most likely ones.
    ranked: Sequence[Any] = sorted(candidates.values(), key=lambda candidate: candidate.logprob, reverse=True)
    return {
        **_candidate_logprob(candidates[token]),
        "top_logprobs": [_candidate_logprob(candidate) for candidate in ranked[:alternatives]],
    }


def _candidate_logprob(candidate: Any) -> Json:
    text = candidate.decoded_token or ""
    return {
        "token": text,
        "logprob": max(candidate.logprob, _MIN_LOGPROB),
        "bytes": list(text.encode("utf-8", errors="replace")),
    }
