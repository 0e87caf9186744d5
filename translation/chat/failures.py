"""Errors that upstreams put inside a good reply, named by meaning."""

from typing import Any, Final

from translation.events import Failed
from translation.json_types import Json
from translation.overflow import is_context_overflow

BROKEN: Final = frozenset({"error", "abort", "insufficient_system_resource"})
"""Values of `finish_reason` that say the answer broke off: OpenRouter; vLLM and SGLang; DeepSeek."""

_CODES: Final = {
    "408": "upstream_timeout",
    "429": "rate_limited",
    "503": "upstream_overloaded",
    "504": "upstream_timeout",
    "529": "upstream_overloaded",
    "RateLimitError": "rate_limited",
    "insufficient_quota": "rate_limited",
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

_NO_WORDS: Final = "the upstream reported an error without saying which"


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
    message = text if isinstance(text, str) and text else _NO_WORDS
    metadata = error.get("metadata")
    kind = metadata.get("error_type") if isinstance(metadata, dict) else None
    return Failed(_code(message, (error.get("code"), error.get("type"), kind)), message)


def _code(message: str, words: tuple[Any, ...]) -> str:
    named = [str(word) for word in words if word is not None]
    if is_context_overflow(message) or any(is_context_overflow("", word) for word in named):
        return "context_length_exceeded"
    return next((_CODES[word] for word in named if word in _CODES), "upstream_error")
