"""Renders failures for clients of Gemini's API: a `google.rpc.Status`, and the headers of any error."""

from typing import Final

from starlette.types import Scope

from gateway.error_replies import choose_client_message, read_error_headers, resolve_code_reply, resolve_error_reply
from gateway.http.auth import GOOGLE_KEY_HEADER
from gateway.http.error_forms import ErrorForm, RenderedError
from gateway.http.headers import headers_of
from gateway.http.request_docs import TEXT_SCHEMA, build_object_schema, document_failures
from translation.gemini.client.gemini_errors import build_status_body
from translation.representation.events import Failed
from translation.representation.json_types import Json

_PATHS: Final = ("/v1beta/", "/upload/v1")
_MODEL_PATH: Final = "/v1/models/"
"""Paths that only Gemini's API posts to."""

_CLIENT_HEADERS: Final = (GOOGLE_KEY_HEADER, b"x-goog-api-client")
"""Headers that the clients of no other API send."""


def is_gemini_request(scope: Scope) -> bool:
    """Whether the client of a request speaks Gemini's API: by its path, or else by its headers.

    Lists of models are at paths of OpenAI's API too, and so are many paths of Gemini's API that are not served here.
    """
    path: str = scope["path"]
    if path.startswith(_PATHS) or (path.startswith(_MODEL_PATH) and scope.get("method") == "POST"):
        return True
    headers = headers_of(scope)
    return any(name in headers for name in _CLIENT_HEADERS)


def render_gemini_error(error: Exception) -> RenderedError:
    """Returns body, status and headers of the reply for a failure."""
    row, headers = resolve_error_reply(error), read_error_headers(error)
    body = build_status_body(
        choose_client_message(error),
        status=row.status,
        code=row.code,
        param=getattr(error, "param", None),
        retry_after=headers.get("retry-after"),
    )
    return body, row.status, headers


def build_stream_error(failed: Failed) -> Json:
    """Returns the error object with which a stream that had begun ends."""
    row = resolve_code_reply(failed.code)
    return build_status_body(failed.message, status=row.status, code=row.code, param=failed.param)


GEMINI_ERRORS: Final = ErrorForm(is_gemini_request, render_gemini_error)

GEMINI_FAILURES: Final = document_failures(
    "Any failure, as Gemini's API has it.",
    build_object_schema(
        ["error"],
        error=build_object_schema(
            ["code", "message", "status"],
            code={"type": "integer"},
            message=TEXT_SCHEMA,
            status=TEXT_SCHEMA,
            details={"type": "array", "items": {"type": "object"}},
        ),
    ),
)
"""The value of `responses` for the routes of the API."""
