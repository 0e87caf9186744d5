"""Token probabilities in the full Responses form."""

from typing import Any

from translation.representation.json_types import Json


def read_logprobs(reported: Any) -> list[Json] | None:
    """Each token with token, logprob, bytes, top_logprobs; `None` where none were sent.

    `bytes` may be null upstream and may not in Responses: the token's UTF-8 then. Entries without a token or a number
    are left out.
    """
    tokens = [
        {
            **_token_entry(entry),
            "top_logprobs": [_token_entry(rival) for rival in _valid_entries(entry.get("top_logprobs"))],
        }
        for entry in _valid_entries(reported)
    ]
    return tokens or None


def _valid_entries(reported: Any) -> list[Json]:
    entries = reported if isinstance(reported, list) else []
    return [
        entry
        for entry in entries
        if isinstance(entry, dict)
        and isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), int | float)
    ]


def _token_entry(entry: Json) -> Json:
    in_bytes = entry.get("bytes")
    if not isinstance(in_bytes, list):
        in_bytes = list(entry["token"].encode())
    return {"token": entry["token"], "logprob": entry["logprob"], "bytes": in_bytes}
