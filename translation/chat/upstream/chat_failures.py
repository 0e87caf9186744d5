"""Assigns the gateway's error codes to errors that chat upstreams report inside a reply with status 200."""

from collections.abc import Sequence
from typing import Final

from translation.decoding.context_overflow import find_bare_error, is_context_overflow
from translation.representation.events import Failed
from translation.representation.json_types import Json

_GEMINI_BROKEN_REASONS: Final = (
    *("LANGUAGE", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"),
    *("NO_IMAGE", "IMAGE_OTHER", "TOO_MANY_TOOL_CALLS", "UNEXPECTED_TOOL_CALL"),
)
"""Gemini's own reasons. Its `OTHER` is missing, because in lower case gateways write it for reasons of all kinds."""

BROKEN_FINISH_REASONS: Final = frozenset(
    {
        *("error", "abort", "insufficient_system_resource", "network_error"),
        *_GEMINI_BROKEN_REASONS,
        *map(str.lower, _GEMINI_BROKEN_REASONS),
    }
)
"""Values of `finish_reason` for a reply that broke off. In this order: OpenRouter; vLLM and SGLang; DeepSeek; Z.ai;
Gemini, whose chat API and gateways before it pass its own reasons on, some in lower case."""

_CREDENTIAL_CODES: Final = frozenset({"401", "authentication_error", "invalid_api_key"})
"""Codes about the gateway's own API key. Their messages may quote the key and are never shown."""

_FAILURE_CODES: Final = {
    "408": "upstream_timeout",
    "429": "rate_limited",
    "503": "upstream_overloaded",
    "504": "upstream_timeout",
    "529": "upstream_overloaded",
    "RateLimitError": "rate_limited",
    "insufficient_quota": "insufficient_quota",
    "overloaded": "upstream_overloaded",
    "overloaded_error": "upstream_overloaded",
    "provider_overloaded": "upstream_overloaded",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "rate_limited": "rate_limited",
    "timeout": "upstream_timeout",
    "too_many_requests": "rate_limited",
}
"""An upstream's code, type or status -> the gateway's code. Any other is an `upstream_error`."""

_REPLY_KEYS: Final = frozenset({"choices", "usage", "delta", "finish_reason"})
"""A chunk or choice of a reply has one of these keys."""

_UNKNOWN_ERROR_MESSAGE: Final = "the upstream reported an error without saying which"


def failure_in(chunk: Json) -> Failed | None:
    """Returns the error in a chunk, a whole reply or one of its choices, `None` without one.

    Shapes seen: `{"error": {...}}`, `{"error": "text"}`, `{"object": "error", "message": ...}` (vLLM before 0.10),
    OpenRouter's, which puts `error` beside the choices or in one of them, and the objects of other servers and proxies,
    which have neither choices nor usage but a message: `{"detail": ...}`, `{"code": ..., "message": ...}`.
    """
    error = chunk.get("error")
    if not error and (chunk.get("object") == "error" or find_bare_error(chunk, _REPLY_KEYS) is not None):
        error = chunk
    if not error:
        return None
    if not isinstance(error, dict):
        return Failed("context_length_exceeded" if is_context_overflow(str(error)) else "upstream_error", str(error))
    text = error.get("message") or find_bare_error(error, _REPLY_KEYS)
    message = text if isinstance(text, str) and text else _UNKNOWN_ERROR_MESSAGE
    metadata = error.get("metadata")
    kind = metadata.get("error_type") if isinstance(metadata, dict) else None
    codes = [
        str(code) for code in (error.get("code"), error.get("type"), error.get("status"), kind) if code is not None
    ]
    if not _CREDENTIAL_CODES.isdisjoint(codes):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials")
    return Failed(_failure_code(message, codes), message)


def _failure_code(message: str, codes: Sequence[str]) -> str:
    if is_context_overflow(message) or any(is_context_overflow("", code) for code in codes):
        return "context_length_exceeded"
    return next((_FAILURE_CODES[code] for code in codes if code in _FAILURE_CODES), "upstream_error")
