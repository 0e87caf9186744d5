"""Assigns the gateway's error codes to errors that a Responses upstream reports."""

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
"""An upstream's code or type -> the gateway's code. Other codes stay, because the API has a closed list of them."""

_CREDENTIAL_CODES = frozenset({"authentication_error", "invalid_api_key", "permission_denied"})
"""Codes about the gateway's own API key. Their messages may quote the key and are never shown."""

_UNKNOWN_ERROR = "the upstream reported an error without saying which"


def failure_in(error: Any, response: Json | None = None) -> Failed:
    """Returns the failure that an `error` object reports. An error may also be a plain text or missing.

    `response` is the failed response that contains it. Its token counts go into the failure.
    """
    counts = usage.read_usage((response or {}).get("usage"))
    if not isinstance(error, dict):
        return Failed("upstream_error", str(error or _UNKNOWN_ERROR), usage=counts)
    codes = [code for code in (error.get("code"), error.get("type")) if isinstance(code, str) and code != "error"]
    if not _CREDENTIAL_CODES.isdisjoint(codes):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials", usage=counts)
    message = str(error.get("message") or _UNKNOWN_ERROR)
    param = error.get("param")
    return Failed(_code(message, codes), message, param if isinstance(param, str) else None, counts)


def _code(message: str, codes: list[str]) -> str:
    if is_context_overflow(message, codes[0] if codes else None):
        return "context_length_exceeded"
    known = next((_CODE_MEANINGS[code] for code in codes if code in _CODE_MEANINGS), None)
    return known or (codes[0] if codes else "upstream_error")


def has_error(response: Json) -> bool:
    """Returns whether a response has an error, whatever its status is."""
    error = response.get("error")
    return bool(error.get("message") or error.get("code")) if isinstance(error, dict) else bool(error)


def is_cut_off(response: Json) -> bool:
    """Returns whether a response says why it is incomplete, whatever its status is."""
    details = response.get("incomplete_details")
    return isinstance(details, dict) and bool(details.get("reason"))
