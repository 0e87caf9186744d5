"""What vLLM generated, as pieces."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from providers.engines.base import Piece
from providers.errors import UpstreamBroken
from translation.representation.json_types import Json

_LEAST: Final = -9999.0
"""JSON has no infinity; vLLM's own server says the same."""

_FINISHES: Final[Mapping[str, Literal["stop", "length"]]] = {
    "stop": "stop",
    "length": "length",
    # Only where the request asked for it, by its own pattern of repetitions.
    "repetition": "stop",
}


def piece(output: Any, *, alternatives: int | None, first: bool) -> Piece:
    """What one RequestOutput adds. Raises UpstreamBroken where the engine gave the request up."""
    (completion,) = output.outputs
    reason = completion.finish_reason
    if reason is not None and reason not in _FINISHES:
        raise UpstreamBroken(f"the engine gave the request up: {reason}")
    tokens = list(completion.token_ids)
    logprobs = None
    if alternatives is not None and completion.logprobs:
        logprobs = [_logprob(*one, alternatives) for one in zip(tokens, completion.logprobs, strict=True)]
    return Piece(
        completion.text,
        tokens,
        logprobs,
        finish=None if reason is None else _FINISHES[reason],
        stop=completion.stop_reason if isinstance(completion.stop_reason, str) else None,
        cached=output.num_cached_tokens if first else None,
    )


def _logprob(token: int, candidates: Mapping[int, Any], alternatives: int) -> Json:
    # vLLM puts the sampled one first, whatever its rank, and adds it to the most likely ones if it is none of them.
    likeliest: Sequence[Any] = sorted(candidates.values(), key=lambda candidate: candidate.logprob, reverse=True)
    return {**_said(candidates[token]), "top_logprobs": [_said(one) for one in likeliest[:alternatives]]}


def _said(candidate: Any) -> Json:
    text = candidate.decoded_token or ""
    return {
        "token": text,
        "logprob": max(candidate.logprob, _LEAST),
        "bytes": list(text.encode("utf-8", errors="replace")),
    }
