"""Reads error objects of upstreams, also where their meaning is not in the status: invalid keys, retry delays, and chat
templates that refuse a conversation, such as one with a system message in the middle."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from providers.errors import (
    UpstreamModelNotFound,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamUnauthorized,
)
from translation.representation.json_types import Json

ERRORS_BY_STATUS: dict[int, type[UpstreamRejected]] = {
    401: UpstreamUnauthorized,
    403: UpstreamUnauthorized,
    404: UpstreamModelNotFound,
    429: UpstreamRateLimited,
    503: UpstreamOverloaded,
    529: UpstreamOverloaded,
}
"""The status of an upstream's error -> what it means. Any other status is an UpstreamRejected."""

STATUS_BY_ERROR_CODE = {
    "authentication_error": 401,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 503,
}
"""`code` or `type` of an error object in a reply with status 200 -> the status that it should have had."""

_API_KEY_REASON_PREFIX: Final = "API_KEY_"
"""The prefix of reasons about the gateway's own API key. An invalid key is an error with status 400."""

_CONTENT_FILTER: Final = "content_filter"
"""The code of an error, and the finish reason of a choice, that a content filter caused."""

_PROMPT_FILTER_KEYS: Final = ("prompt_filter_results", "prompt_annotations")

_FILTER_REPORTS: Final = frozenset({"content_filter_result", "content_filter_results"})
"""The keys of Azure's reports: an object with an entry for each filter."""

_MAX_FILTER_CHARS: Final = 50

_DURATION: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?s")

_MAX_DEPTH: Final = 50
"""The deepest nesting of an error that is read."""


def parse_error_object(body: bytes) -> Json:
    """Returns the error object of a body, as `find_error_object` does; empty if it is not JSON."""
    try:
        return find_error_object(orjson.loads(body))
    except orjson.JSONDecodeError:
        return {}


def find_error_object(parsed: Any) -> Json:
    """Returns the error object of a body, with its text in `message`; empty if there is none, or one nested too deep.

    Servers write errors as {error: {...}}, {error: "text"}, {message: ...} or {detail: ...}, or as a list of those.
    """
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if not isinstance(parsed, dict) or _is_deep(parsed):
        return {}
    error = parsed.get("error", parsed)
    if isinstance(error, dict):
        if (filtered := _find_filter_error(parsed, error)) is not None:
            return filtered
        return error if "message" in error or "detail" not in error else {**error, "message": error["detail"]}
    return {"message": error}


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [each for parent in level for each in _list_values(parent)]
        if not level:
            return False
    return True


def _list_values(parent: Any) -> Iterable[Any]:
    return parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ()


def _find_filter_error(body: Json, error: Json) -> Json | None:
    """Returns the error of a reply that a content filter stopped, with the names of the filters; None if none did.

    Azure sends them in the error, for the prompt, or a completion with the status 400, for the reply.
    """
    inner = error.get("innererror")
    choices = body.get("choices")
    reports = [inner, *(body.get(key) for key in _PROMPT_FILTER_KEYS)] if isinstance(inner, dict) else []
    is_filtered = error.get("code") == _CONTENT_FILTER
    if error is body and isinstance(choices, list):
        filtered = [c for c in choices if isinstance(c, dict) and c.get("finish_reason") == _CONTENT_FILTER]
        is_filtered = bool(filtered)
        reports = [*filtered, *(body.get(key) for key in _PROMPT_FILTER_KEYS)]
    if not is_filtered:
        return None
    message = str(error.get("message") or "the upstream's content filter stopped the reply")
    names = [name for name in sorted(set(_list_filters(reports))) if name not in message]
    message = f"{message.rstrip(' .')} (filtered: {', '.join(names)})" if names else message
    return {**error, "code": _CONTENT_FILTER, "message": message}


def _list_filters(value: Any) -> Iterator[str]:
    """Yields the names of the filters that stopped a prompt or a reply, such as `hate` or `jailbreak`."""
    if isinstance(value, list):
        for entry in value:
            yield from _list_filters(entry)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, dict) and inner.get("filtered") is True:
                yield name[:_MAX_FILTER_CHARS]
            elif isinstance(inner, dict | list) and name in _FILTER_REPORTS:
                yield from _list_filters(inner)


def resolve_status(status: int, error: Json) -> int:
    """Returns the status that an error should have had: 401 for an invalid key of the gateway."""
    return (
        401
        if any(str(detail.get("reason")).startswith(_API_KEY_REASON_PREFIX) for detail in _list_details(error))
        else status
    )


def build_retry_headers(error: Json) -> dict[str, str]:
    """Returns the header `retry-after` in whole seconds, rounded up, if the error says how long to wait."""
    for detail in _list_details(error):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (match := _DURATION.fullmatch(delay)):
            return {"retry-after": str(int(match[1]) + (int(match[2] or 0) > 0))}
    return {}


def parse_details(error: Json, redact: Callable[[str], str]) -> Json | None:
    """Returns the `details` of an error if they are an object, with redacted texts; else None."""
    details = error.get("details")
    if not isinstance(details, dict):
        return None
    return {key: redact(value) if isinstance(value, str) else value for key, value in details.items()}


def _list_details(error: Json) -> list[Json]:
    details: Any = error.get("details")
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


_SYSTEM_ROLE_ERROR: Final = re.compile(
    r"system messages? (?:must|should|can only) (?:be|come|appear)"
    r"|system role(?: is)? not supported"
    r"|only user and assistant roles are supported"
    r"|unknown variant .?system\b"
    r"|unexpected role .{0,2}system\b",
    re.IGNORECASE,
)
"""Templates of Qwen, Mistral and Gemma, Ollama's renderers, and servers whose API has no such role."""


def describe_system_refusal(message: str) -> str | None:
    """Returns an error message about a system message that the model's template refuses, in words by which clients
    repeat their request without it, as Claude Code does; None for other errors.

    It is the client's error, whatever status the upstream sent.
    """
    if _SYSTEM_ROLE_ERROR.search(message) is None:
        return None
    return (
        f"role 'system' is not supported on this model at this place of the conversation ({message.rstrip('.')}). "
        "The operator can set `system_messages: merge_all`."
    )


_TEMPLATE_ERROR: Final = re.compile(r"\bjinja\b|\bat row \d+, column \d+", re.IGNORECASE)
"""Observed in old and new versions of llama.cpp, in LM Studio and in Ollama."""


def is_template_error(message: str) -> bool:
    """Whether an error message is about a chat template. The client can change the refused conversation, so it is the
    client's error, whatever status the upstream sent."""
    return _TEMPLATE_ERROR.search(message) is not None
