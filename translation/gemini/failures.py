"""How Gemini says that it failed, named by meaning."""

from typing import Any, Final

from translation.decoding.context_overflow import is_context_overflow
from translation.representation.events import Failed
from translation.representation.json_types import Json

_ERROR_CODES: Final = {
    "DEADLINE_EXCEEDED": "upstream_timeout",
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "upstream_overloaded",
}
"""A `google.rpc.Status` -> ours; any other is an `upstream_error`. https://ai.google.dev/gemini-api/docs/troubleshooting"""

_CREDENTIAL_STATUSES: Final = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED"})
"""Statuses about the gateway's own key, whose texts may quote it."""

_API_KEY_REASON_PREFIX: Final = "API_KEY_"
"""How reasons begin that are about the key: a bad one is an INVALID_ARGUMENT."""

_NO_MESSAGE: Final = "the upstream reported an error without saying which"

BROKEN_FINISH_REASONS: Final = frozenset(
    {
        "IMAGE_OTHER",
        "LANGUAGE",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "NO_IMAGE",
        "OTHER",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""Finish reasons that say there is no whole answer. https://ai.google.dev/api/generate-content#FinishReason"""


def failure_in(error: Any) -> Failed:
    """What the `error` inside a good reply means."""
    if not isinstance(error, dict):
        return Failed("upstream_error", str(error or _NO_MESSAGE))
    status, text = str(error.get("status")), error.get("message")
    if status in _CREDENTIAL_STATUSES or any(
        reason.startswith(_API_KEY_REASON_PREFIX) for reason in _error_reasons(error)
    ):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials")
    message = text if isinstance(text, str) and text else _NO_MESSAGE
    if is_context_overflow(message):
        return Failed("context_length_exceeded", message)
    return Failed(_ERROR_CODES.get(status, "upstream_error"), message)


def failure_from_finish(reason: str, candidate: Json) -> Failed:
    """A finish reason of `BROKEN`, with what the upstream says about it."""
    message = candidate.get("finishMessage")
    return Failed(
        "upstream_error", f"the model stopped with {reason}" + (f": {message}" if isinstance(message, str) else "")
    )


def failure_from_block(feedback: Json) -> Failed:
    """A prompt that the upstream does not answer."""
    message = feedback.get("blockReasonMessage")
    suffix = f": {message}" if isinstance(message, str) else ""
    return Failed("invalid_prompt", f"the upstream blocked the prompt ({feedback['blockReason']}){suffix}")


def _error_reasons(error: Json) -> list[str]:
    details = error.get("details")
    listed = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return [reason for each in listed if isinstance(reason := each.get("reason"), str)]
