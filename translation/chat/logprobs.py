"""Token probabilities from chat's form into the full Responses form."""

from typing import Any

from translation.json_types import Json


def read_logprobs(choice: Json) -> list[Json] | None:
    """The tokens of a choice's text, each with token, logprob, bytes, top_logprobs; `None` where none were sent.

    `bytes` may be null in chat and may not in Responses: the token's UTF-8 then. Entries without a token or a number
    are left out.
    """
    reported = choice.get("logprobs")
    if not isinstance(reported, dict):
        return None
    return _entries(reported.get("content") or reported.get("refusal")) or None


def _entries(reported: Any) -> list[Json]:
    return [
        {**_token(entry), "top_logprobs": [_token(rival) for rival in _valid(entry.get("top_logprobs"))]}
        for entry in _valid(reported)
    ]


def _valid(reported: Any) -> list[Json]:
    entries = reported if isinstance(reported, list) else []
    return [
        entry
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), int | float)
    ]


def _token(entry: Json) -> Json:
    in_bytes = entry.get("bytes")
    if not isinstance(in_bytes, list):
        in_bytes = list(entry["token"].encode())
    return {"token": entry["token"], "logprob": entry["logprob"], "bytes": in_bytes}
