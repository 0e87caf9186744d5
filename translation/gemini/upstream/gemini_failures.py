"""Assigns the gateway's error codes to errors, finish reasons and blocked prompts that Gemini reports."""

from typing import Any, Final

from translation.decoding.context_overflow import is_context_overflow
from translation.representation.events import Failed
from translation.representation.json_types import Json

_ERROR_CODES: Final = {
    "DEADLINE_EXCEEDED": "upstream_timeout",
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "upstream_overloaded",
}
"""A `google.rpc.Status` -> the gateway's code. Any other is an `upstream_error`.
https://ai.google.dev/gemini-api/docs/troubleshooting"""

_CREDENTIAL_STATUSES: Final = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED"})
"""Statuses about the gateway's own API key. Their messages may quote the key and are never shown."""

_API_KEY_REASON_PREFIX: Final = "API_KEY_"
"""Prefix of error reasons about the API key. A bad key has the status INVALID_ARGUMENT, so the status is not enough."""

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
"""Finish reasons of an incomplete reply. https://ai.google.dev/api/generate-content#FinishReason"""


def failure_in(error: Any) -> Failed:
    """Returns the failure that the `error` of a reply with status 200 reports."""
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
    """Returns the failure for a reason of BROKEN_FINISH_REASONS, with the upstream's own message if it sent one."""
    message = candidate.get("finishMessage")
    return Failed(
        "upstream_error", f"the model stopped with {reason}" + (f": {message}" if isinstance(message, str) else "")
    )


def failure_from_block(feedback: Json) -> Failed:
    """Returns the failure for a `promptFeedback` with the reason why the prompt was blocked."""
    message = feedback.get("blockReasonMessage")
    suffix = f": {message}" if isinstance(message, str) else ""
    return Failed("invalid_prompt", f"the upstream blocked the prompt ({feedback['blockReason']}){suffix}")


def _error_reasons(error: Json) -> list[str]:
    details = error.get("details")
    listed = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    return [reason for detail in listed if isinstance(reason := detail.get("reason"), str)]
