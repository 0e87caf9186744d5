"""Token probabilities from Gemini's form into the full Responses form."""

from typing import Any

from translation.representation.json_types import Json


def read_logprobs(candidate: Json) -> list[Json] | None:
    """The tokens of a candidate's text; `None` where none were sent. Entries without a token or a number are left out.

    https://ai.google.dev/api/generate-content#LogprobsResult
    """
    reported = candidate.get("logprobsResult")
    if not isinstance(reported, dict):
        return None
    chosen, rivals = _listed(reported.get("chosenCandidates")), _listed(reported.get("topCandidates"))
    entries: list[Json] = []
    for position, token in enumerate(chosen):
        beside = rivals[position] if position < len(rivals) else None
        listed = _listed(beside.get("candidates")) if isinstance(beside, dict) else []
        if _is_token(token):
            entries.append({**_token(token), "top_logprobs": [_token(rival) for rival in listed if _is_token(rival)]})
    return entries or None


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _is_token(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logProbability"), int | float)
    )


def _token(entry: Json) -> Json:
    return {"token": entry["token"], "logprob": entry["logProbability"], "bytes": list(entry["token"].encode())}
