"""Renders failures as error objects of the Messages API, with the types and texts that its clients act on.

https://platform.claude.com/docs/en/api/errors
"""

import re
from typing import Any, Final

from translation.decoding.context_overflow import CONTEXT_OVERFLOW, is_context_overflow
from translation.representation.events import Failed
from translation.representation.json_types import Json

_TYPES_BY_CODE: Final = {
    CONTEXT_OVERFLOW: "invalid_request_error",
    "insufficient_quota": "billing_error",
    "invalid_prompt": "invalid_request_error",
    "rate_limit_exceeded": "rate_limit_error",
    "rate_limited": "rate_limit_error",
    "engine_unavailable": "overloaded_error",
    "server_shutting_down": "overloaded_error",
    "upstream_overloaded": "overloaded_error",
    "upstream_timeout": "timeout_error",
}
"""The gateway's code of a failure -> the API's type. Any other code has the type of its status."""

_CODES_BY_TYPE: Final = {
    "billing_error": "insufficient_quota",
    "invalid_request_error": "invalid_prompt",
    "overloaded_error": "upstream_overloaded",
    "rate_limit_error": "rate_limited",
    "timeout_error": "upstream_timeout",
}
"""The API's type of an error -> the gateway's code. Any other is an `upstream_error`."""

_TYPES_BY_STATUS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Status -> the API's type. Any other status below 500 is an invalid request."""

_SPLIT_OVERFLOW: Final = re.compile(
    r"context length is (?P<limit>\d{1,12}+).{0,200}?"
    r"\((?P<prompt>\d{1,12}+) in the messages, (?P<answer>\d{1,12}+) in the completion\)",
    re.DOTALL,
)
"""Matches OpenAI's and vLLM's message for a prompt that would fit with a smaller limit for the answer."""

_DIGIT_GROUPS: Final = re.compile(r"(?<=\d),(?=\d{3})")

_COUNT: Final = re.compile(
    r"(?<![\w.-])(\d{1,12})(?= (?:(?:input|prompt|total) )?tokens?\b)"
    r"|(?:tokens?|prompt|requested|resulted in)[ (:=]{1,3}(?:(?:count|length|size|of|is|has)[ (:=]{1,3})*"
    r"(\d{1,12})(?![\w-]|\.\d| (?:output|completion) )",
    re.IGNORECASE,
)
"""Matches numbers of tokens. Any other number may be part of a model's name, a date, or the id of a request."""

_LIMIT: Final = re.compile(
    r"(?:context (?:length|size|window)[^\d]{0,40}|(?:model )?length of |max(?:imum)?[^\d]{0,40}|limit[^\d]{0,20})"
    r"(?<![\w.-])(\d{1,12})(?![\w-]|\.\d)"
    r"|(?<![\w.-])(\d{1,12})(?: tokens?)? (?:maximum|limit)",
    re.IGNORECASE,
)

_OWN_SPLIT: Final = "input length and `max_tokens` exceed context limit"


def build_error_body(message: str, *, code: str | None, status: int = 500, request_id: str | None = None) -> Json:
    """Returns the body of an error reply, which is also the data of a stream's `error` event.

    `code` and `status` come from the gateway's error table.
    """
    kind = _TYPES_BY_CODE.get(code or "") or _TYPES_BY_STATUS.get(status)
    if kind is None:
        kind = "invalid_request_error" if status < 500 else "api_error"
    error: Json = {"type": kind, "message": describe_overflow(message) if code == CONTEXT_OVERFLOW else message}
    body: Json = {"type": "error", "error": error}
    return body if request_id is None else {**body, "request_id": request_id}


def parse_failure(error: Any) -> Failed:
    """Returns the failure that an `error` object of an upstream with the same API reports."""
    reported = error if isinstance(error, dict) else {"message": error}
    kind, text = str(reported.get("type")), reported.get("message")
    message = text if isinstance(text, str) and text else "the upstream reported an error without saying which"
    if is_context_overflow(message, kind):
        return Failed(CONTEXT_OVERFLOW, message)
    return Failed(_CODES_BY_TYPE.get(kind, "upstream_error"), message)


def describe_overflow(message: str) -> str:
    """Returns a message about a prompt that is too long, in the words that clients look for.

    Claude Code reads the numbers of such a message: it compacts the conversation, or it asks for a shorter answer.
    """
    if _OWN_SPLIT in message:
        return message
    text = _DIGIT_GROUPS.sub("", message)
    if (split := _SPLIT_OVERFLOW.search(text)) is not None:
        if int(split["prompt"]) > int(split["limit"]):
            return f"prompt is too long: {split['prompt']} tokens > {split['limit']} maximum"
        return (
            f"{_OWN_SPLIT}: {split['prompt']} + {split['answer']} > "
            f"{split['limit']}, decrease input length or `max_tokens` and try again"
        )
    limits = [int(match[1] or match[2]) for match in _LIMIT.finditer(text)]
    counts = [int(match[1] or match[2]) for match in _COUNT.finditer(text)]
    for limit in limits:
        longer = [count for count in counts if count > limit]
        if longer:
            return f"prompt is too long: {max(longer)} tokens > {limit} maximum"
    return message if "prompt is too long" in message.lower() else f"prompt is too long: {message}"
