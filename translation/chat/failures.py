"""Errors that upstreams put inside a good reply, named by meaning."""

from collections.abc import Sequence
from typing import Final

from translation.decoding.context_overflow import is_context_overflow
from translation.representation.events import Failed
from translation.representation.json_types import Json

BROKEN_FINISH_REASONS: Final = frozenset({"error", "abort", "insufficient_system_resource"})
"""Values of `finish_reason` that say the answer broke off: OpenRouter; vLLM and SGLang; DeepSeek."""

_CREDENTIAL_CODES: Final = frozenset({"401", "authentication_error", "invalid_api_key"})
"""Codes about the gateway's own key, whose texts may quote it."""

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
"""An upstream's own code, type or status -> ours. What is not listed is an `upstream_error`."""

_UNKNOWN_ERROR_MESSAGE: Final = "the upstream reported an error without saying which"


def failure_in(chunk: Json) -> Failed | None:
    """The error a chunk or answer carries, if any.

    Shapes seen: `{"error": {...}}`, `{"error": "text"}`, `{"object": "error", "message": ...}` (vLLM before 0.10), and
    OpenRouter's, which has it beside the choices or in one.
    """
    error = chunk.get("error")
    if not error and chunk.get("object") == "error":
        error = chunk
    if not error:
        return None
    if not isinstance(error, dict):
        return Failed("context_length_exceeded" if is_context_overflow(str(error)) else "upstream_error", str(error))
    text = error.get("message")
    message = text if isinstance(text, str) and text else _UNKNOWN_ERROR_MESSAGE
    metadata = error.get("metadata")
    kind = metadata.get("error_type") if isinstance(metadata, dict) else None
    words = [str(word) for word in (error.get("code"), error.get("type"), kind) if word is not None]
    if not _CREDENTIAL_CODES.isdisjoint(words):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials")
    return Failed(_failure_code(message, words), message)


def _failure_code(message: str, words: Sequence[str]) -> str:
    if is_context_overflow(message) or any(is_context_overflow("", word) for word in words):
        return "context_length_exceeded"
    return next((_FAILURE_CODES[word] for word in words if word in _FAILURE_CODES), "upstream_error")
