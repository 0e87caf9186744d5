"""Converts log probabilities from Gemini's form to the full Responses form."""

from typing import Any

from translation.representation.json_types import Json


def read_logprobs(candidate: Json) -> list[Json] | None:
    """Returns the log probabilities of a candidate's text, `None` without any.

    Entries without a token or a number are left out.
    https://ai.google.dev/api/generate-content#LogprobsResult
    """
    reported = candidate.get("logprobsResult")
    if not isinstance(reported, dict):
        return None
    chosen, top_candidates = (
        _list_or_empty(reported.get("chosenCandidates")),
        _list_or_empty(reported.get("topCandidates")),
    )
    entries: list[Json] = []
    for position, token in enumerate(chosen):
        top = top_candidates[position] if position < len(top_candidates) else None
        listed = _list_or_empty(top.get("candidates")) if isinstance(top, dict) else []
        if _is_token(token):
            entries.append(
                {
                    **_logprob_entry(token),
                    "top_logprobs": [_logprob_entry(alternative) for alternative in listed if _is_token(alternative)],
                }
            )
    return entries or None


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_token(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logProbability"), int | float)
    )


def _logprob_entry(entry: Json) -> Json:
    return {"token": entry["token"], "logprob": entry["logProbability"], "bytes": list(entry["token"].encode())}
