"""What vLLM generated, as pieces."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from providers.engines.base import EngineDelta
from providers.errors import UpstreamBroken
from translation.representation.json_types import Json

_MIN_LOGPROB: Final = -9999.0
"""JSON has no infinity; vLLM's own server says the same."""

_FINISH_REASONS: Final[Mapping[str, Literal["stop", "length"]]] = {
    "stop": "stop",
    "length": "length",
    # Only where the request asked for it, by its own pattern of repetitions.
    "repetition": "stop",
}


def delta_of_output(output: Any, *, alternatives: int | None, first: bool) -> EngineDelta:
    """What one RequestOutput adds. Raises UpstreamBroken where the engine gave the request up."""
    (completion,) = output.outputs
    reason = completion.finish_reason
    if reason is not None and reason not in _FINISH_REASONS:
        raise UpstreamBroken(f"the engine gave the request up: {reason}")
    tokens = list(completion.token_ids)
    logprobs = None
    if alternatives is not None and completion.logprobs:
        logprobs = [_token_logprob(*one, alternatives) for one in zip(tokens, completion.logprobs, strict=True)]
    return EngineDelta(
        completion.text,
        tokens,
        logprobs,
        finish_reason=None if reason is None else _FINISH_REASONS[reason],
        stop_string=completion.stop_reason if isinstance(completion.stop_reason, str) else None,
        cached_tokens=output.num_cached_tokens if first else None,
    )


def _token_logprob(token: int, candidates: Mapping[int, Any], alternatives: int) -> Json:
    # vLLM puts the sampled one first, whatever its rank, and adds it to the most likely ones if it is none of them.
    likeliest: Sequence[Any] = sorted(candidates.values(), key=lambda candidate: candidate.logprob, reverse=True)
    return {
        **_candidate_logprob(candidates[token]),
        "top_logprobs": [_candidate_logprob(one) for one in likeliest[:alternatives]],
    }


def _candidate_logprob(candidate: Any) -> Json:
    text = candidate.decoded_token or ""
    return {
        "token": text,
        "logprob": max(candidate.logprob, _MIN_LOGPROB),
        "bytes": list(text.encode("utf-8", errors="replace")),
    }
