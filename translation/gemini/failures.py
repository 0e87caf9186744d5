"""How Gemini says that it failed, named by meaning."""

from typing import Any, Final

from translation.decoding.context_overflow import is_context_overflow
from translation.representation.events import Failed
from translation.representation.json_types import Json

_CODES: Final = {
    "DEADLINE_EXCEEDED": "upstream_timeout",
    "RESOURCE_EXHAUSTED": "rate_limited",
    "UNAVAILABLE": "upstream_overloaded",
}
"""A `google.rpc.Status` -> ours; any other is an `upstream_error`. https://ai.google.dev/gemini-api/docs/troubleshooting"""

_CREDENTIALS: Final = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED"})
"""Statuses about the gateway's own key, whose texts may quote it."""

_KEY: Final = "API_KEY_"
"""How reasons begin that are about the key: a bad one is an INVALID_ARGUMENT."""

_NO_WORDS: Final = "the upstream reported an error without saying which"

BROKEN: Final = frozenset(
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
        return Failed("upstream_error", str(error or _NO_WORDS))
    status, text = str(error.get("status")), error.get("message")
    if status in _CREDENTIALS or any(reason.startswith(_KEY) for reason in _reasons(error)):
        return Failed("upstream_unauthorized", "the upstream refused the gateway's own credentials")
    message = text if isinstance(text, str) and text else _NO_WORDS
    if is_context_overflow(message):
        return Failed("context_length_exceeded", message)
    return Failed(_CODES.get(status, "upstream_error"), message)


def broken_off(reason: str, candidate: Json) -> Failed:
    """A finish reason of `BROKEN`, with what the upstream says about it."""
    said = candidate.get("finishMessage")
    return Failed("upstream_error", f"the model stopped with {reason}" + (f": {said}" if isinstance(said, str) else ""))


def blocked(feedback: Json) -> Failed:
    """A prompt that the upstream does not answer."""
    said = feedback.get("blockReasonMessage")
    told = f": {said}" if isinstance(said, str) else ""
    return Failed("invalid_prompt", f"the upstream blocked the prompt ({feedback['blockReason']}){told}")


def _reasons(error: Json) -> list[str]:
    details = error.get("details")
    listed = [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []
    return [reason for each in listed if isinstance(reason := each.get("reason"), str)]
