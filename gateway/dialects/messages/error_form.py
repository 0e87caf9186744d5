"""Renders failures for clients of the Messages API: their statuses, bodies and headers."""

from typing import Final

from starlette.types import Scope

from gateway.error_replies import build_message_with_place, read_error_headers, resolve_error_reply
from gateway.http.error_forms import ErrorForm, RenderedError
from gateway.http.headers import headers_of
from gateway.http.request_docs import TEXT_SCHEMA, build_object_schema, document_failures
from gateway.logs import read_bound_request_id
from gateway.state.values import THREAD_ALREADY_CONTINUED, THREAD_IN_FLIGHT
from providers.errors import UpstreamRejected
from translation.messages.client.lift import THREAD_UNSUPPORTED
from translation.messages.client.messages_errors import build_error_body
from translation.messages.client.threads import (
    THREAD_MISMATCH,
    THREAD_NOT_FOUND,
)
from translation.representation.json_types import Json

_PATH: Final = "/v1/messages"
_SHARED_PATHS: Final = ("/v1/models", "/v1/files")
"""Paths that OpenAI's API has too."""

_VERSION_HEADER: Final = b"anthropic-version"

_OVERLOADED: Final = 529
"""The API's status for failures that the gateway reports as 503."""

_RETRYABLE_STATUSES: Final = frozenset({408, 429, 500, 502, 504, _OVERLOADED})

_RECOVERY_CODES: Final = {
    **{
        code: code
        for code in (
            THREAD_UNSUPPORTED,
            THREAD_NOT_FOUND,
            THREAD_IN_FLIGHT,
            THREAD_ALREADY_CONTINUED,
            THREAD_MISMATCH,
        )
    },
    # The message was deleted while its thread was continued.
    "previous_response_not_found": THREAD_NOT_FOUND,
}
"""The gateway's code of a failure -> the code in the error's details, by which the API's clients recover."""

_FINAL_CODES: Final = frozenset({"insufficient_quota", "upstream_unauthorized"})
"""Codes of failures that a retry cannot change, although their status suggests a retry."""


def is_messages_request(scope: Scope) -> bool:
    """Whether the client of a request speaks the Messages API: by its path, or by its version header at a path that
    OpenAI's API has too."""
    path: str = scope["path"]
    if path == _PATH or path.startswith(f"{_PATH}/"):
        return True
    return path.startswith(_SHARED_PATHS) and bool(headers_of(scope).get(_VERSION_HEADER))


def render_messages_error(error: Exception) -> RenderedError:
    """Returns body, status and headers of the reply for a failure.

    The header `x-should-retry` overrides the decision of the API's clients, which retry by status.
    """
    row = resolve_error_reply(error)
    status = _OVERLOADED if row.status == 503 else row.status
    request_id = read_bound_request_id()
    body = build_error_body(build_message_with_place(error), code=row.code, status=status, request_id=request_id)
    if (details := _build_details(error, row.code)) is not None:
        body["error"]["details"] = details
    is_retryable = status in _RETRYABLE_STATUSES and row.code not in _FINAL_CODES
    headers = {"x-should-retry": "true" if is_retryable else "false", **read_error_headers(error)}
    return body, status, headers | build_request_id_headers()


def build_request_id_headers() -> dict[str, str]:
    """Returns the header with the request's id under the API's own name, which its SDKs read."""
    request_id = read_bound_request_id()
    return {} if request_id is None else {"request-id": request_id}


def _build_details(error: Exception, code: str | None) -> Json | None:
    """Returns the details by which clients recover from a failure: the upstream's, or a code of the gateway."""
    if isinstance(error, UpstreamRejected) and error.details is not None:
        return dict(error.details)
    recovery = _RECOVERY_CODES.get(code or "")
    return None if recovery is None else {"error_code": recovery}


MESSAGES_ERRORS: Final = ErrorForm(is_messages_request, render_messages_error)

MESSAGES_FAILURES: Final = document_failures(
    "Any failure, in the form of the Messages API.",
    build_object_schema(
        ["type", "error"],
        type={"const": "error"},
        error=build_object_schema(
            ["type", "message"], type=TEXT_SCHEMA, message=TEXT_SCHEMA, details={"type": "object"}
        ),
        request_id=TEXT_SCHEMA,
    ),
)
"""The value of `responses` for the routes of the API."""
