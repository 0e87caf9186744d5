"""How a Responses upstream says that it failed, named by meaning."""

from typing import Any

from translation.decoding.context_overflow import is_context_overflow
from translation.representation.events import Failed
from translation.representation.json_types import Json
from translation.responses import usage

_CODE_MEANINGS = {
    "insufficient_quota": "insufficient_quota",
    "rate_limit_exceeded": "rate_limited",
    "requests": "rate_limited",
    "tokens": "rate_limited",
    "too_many_requests": "rate_limited",
    "overloaded": "upstream_overloaded",
    "server_is_overloaded": "upstream_overloaded",
    "slow_down": "upstream_overloaded",
}
"""An upstream's own code or type -> ours. Codes that are not listed stay: the API has a closed list of them."""

_CREDENTIAL_CODES = frozenset({"authentication_error", "invalid_api_key", "permission_denied"})
"""Codes about the gateway's own key, whose texts may quote it."""

_UNKNOWN_ERROR = "the upstream reported an error without saying which"


def failure_in(error: Any, response: Json | None = None) -> Failed:
    """What an `error` object means. `response` is the failed response it was in, which may have counted tokens."""
    counted = usage.read_usage((response or {}).get("usage"))
    if not isinstance(error, dict):
        return Failed("upstream_error", str(error or _UNKNOWN_ERROR), usage=counted)
    words = [word for word in (error.get("code"), error.get("type")) if isinstance(word, str) and word != "error"]
    if not _CREDENTIAL_CODES.isdisjoint(words):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials", usage=counted)
    message = str(error.get("message") or _UNKNOWN_ERROR)
    param = error.get("param")
    return Failed(_code(message, words), message, param if isinstance(param, str) else None, counted)


def _code(message: str, words: list[str]) -> str:
    if is_context_overflow(message, words[0] if words else None):
        return "context_length_exceeded"
    known = next((_CODE_MEANINGS[word] for word in words if word in _CODE_MEANINGS), None)
    return known or (words[0] if words else "upstream_error")
