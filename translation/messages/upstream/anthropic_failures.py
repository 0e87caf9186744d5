"""Assigns the gateway's error codes to errors that the Messages API reports inside a reply with status 200."""

from typing import Any, Final

from translation.decoding.context_overflow import is_context_overflow
from translation.representation.events import Failed

_ERROR_CODES: Final = {
    "authentication_error": "upstream_unauthorized",
    "permission_error": "upstream_unauthorized",
    "billing_error": "insufficient_quota",
    "overloaded_error": "upstream_overloaded",
    "rate_limit_error": "rate_limited",
    "timeout_error": "upstream_timeout",
}
"""The API's error type -> the gateway's code. Any other is an `upstream_error`."""

_NO_MESSAGE: Final = "the upstream reported an error without saying which"


def failure_in(error: Any) -> Failed:
    """Returns the failure that an `error` object reports: `{"type": "overloaded_error", "message": "Overloaded"}`."""
    reported = error if isinstance(error, dict) else {"message": error}
    kind, text = str(reported.get("type")), reported.get("message")
    message = text if isinstance(text, str) and text else _NO_MESSAGE
    if is_context_overflow(message, kind):
        return Failed("context_length_exceeded", message)
    code = _ERROR_CODES.get(kind, "upstream_error")
    # Such a message may quote the gateway's API key.
    return Failed(
        code,
        "the upstream refused the gateway's own credentials" if code == _ERROR_CODES["permission_error"] else message,
    )
