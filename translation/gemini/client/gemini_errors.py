"""Renders failures as error objects of Gemini's API: a `google.rpc.Status` with the details that its clients act on.

https://ai.google.dev/gemini-api/docs/troubleshooting
"""

from typing import Final

from translation.representation.json_types import Json

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    414: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    422: "INVALID_ARGUMENT",
    424: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    431: "INVALID_ARGUMENT",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""HTTP status -> the name in `google.rpc.Code`. Any other status is INTERNAL."""

_TYPES: Final = "type.googleapis.com/google.rpc."

_DOMAIN: Final = "responses-gateway"


def build_status_body(
    message: str, *, status: int, code: str | None = None, param: str | None = None, retry_after: str | None = None
) -> Json:
    """Returns the body of an error reply, which is also the last chunk of a stream that fails after its start.

    `status` and `code` come from the gateway's error table, `param` is the field at fault, and `retry_after` is the
    header of that name, in seconds.
    """
    details: list[Json] = []
    if code is not None:
        details.append({"@type": f"{_TYPES}ErrorInfo", "reason": code.upper(), "domain": _DOMAIN})
    if param is not None:
        violation = {"field": param, "description": message}
        details.append({"@type": f"{_TYPES}BadRequest", "fieldViolations": [violation]})
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        details.append({"@type": f"{_TYPES}RetryInfo", "retryDelay": f"{retry_after}s"})
    error: Json = {"code": status, "message": message, "status": _STATUSES.get(status, "INTERNAL")}
    if details:
        error["details"] = details
    return {"error": error}
