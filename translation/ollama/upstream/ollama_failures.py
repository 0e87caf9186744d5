"""Assigns the gateway's error codes to the error texts that Ollama reports inside a reply with status 200."""

import re
from typing import Any, Final

from translation.decoding.context_overflow import is_context_overflow
from translation.representation.events import Failed

_UNAUTHORIZED: Final = re.compile(r"\bunauthorized\b|\bsign ?in\b", re.IGNORECASE)

_ERROR_CODES: Final = (
    (re.compile(r"server busy|maximum pending requests|overloaded", re.IGNORECASE), "upstream_overloaded"),
    (re.compile(r"too many requests|rate limit|usage limit", re.IGNORECASE), "rate_limited"),
    (re.compile(r"timed out|timeout", re.IGNORECASE), "upstream_timeout"),
)
"""(pattern in the error's text, the gateway's code). Any other error is an `upstream_error`."""


def failure_in(error: Any) -> Failed:
    """Returns the failure that the `error` of a chunk or of a whole reply reports."""
    text = error.get("message") if isinstance(error, dict) else error
    message = text if isinstance(text, str) and text else "the upstream reported an error without saying which"
    if is_context_overflow(message):
        return Failed("context_length_exceeded", message)
    if _UNAUTHORIZED.search(message):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials")
    return Failed(next((code for pattern, code in _ERROR_CODES if pattern.search(message)), "upstream_error"), message)
