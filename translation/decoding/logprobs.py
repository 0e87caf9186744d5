"""Log probabilities of tokens in the full Responses form."""

from typing import Any

from translation.representation.json_types import Json


def read_token_logprobs(reported: Any) -> list[Json] | None:
    """Returns an entry with token, logprob, bytes and top_logprobs per token; `None` if none were reported.

    Upstreams may send null for `bytes`, which Responses does not allow: it becomes the token's UTF-8 bytes. Entries
    without a string `token` or a numeric `logprob` are left out.
    """
    tokens = [
        {
            **_token_entry(entry),
            "top_logprobs": [_token_entry(alternative) for alternative in _valid_entries(entry.get("top_logprobs"))],
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
    utf8_bytes = entry.get("bytes")
    if not isinstance(utf8_bytes, list):
        utf8_bytes = list(entry["token"].encode())
    return {"token": entry["token"], "logprob": entry["logprob"], "bytes": utf8_bytes}
