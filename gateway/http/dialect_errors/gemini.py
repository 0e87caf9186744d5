"""Renders failures for clients of Gemini's API: a `google.rpc.Status`, and the headers of any error."""

from typing import Final

from starlette.types import Scope

from gateway.errors import client_message, error_headers, resolve_code_reply, resolve_error_reply
from translation.gemini_endpoint.failures import build_status_body
from translation.representation.events import Failed
from translation.representation.json_types import Json

_PATH: Final = "/v1beta/"
_SHARED_PATH: Final = "/v1/models/"


def is_gemini_request(scope: Scope) -> bool:
    """Whether a request belongs to Gemini's API, which has a version of its own and shares the path of models."""
    path: str = scope["path"]
    return path.startswith(_PATH) or (path.startswith(_SHARED_PATH) and scope.get("method") == "POST")


def render_gemini_error(error: Exception) -> tuple[Json, int, dict[str, str]]:
    """Returns body, status and headers of the reply for a failure."""
    row, headers = resolve_error_reply(error), error_headers(error)
    body = build_status_body(
        client_message(error),
        status=row.status,
        code=row.code,
        param=getattr(error, "param", None),
        retry_after=headers.get("retry-after"),
    )
    return body, row.status, headers


def build_stream_error(failed: Failed) -> Json:
    """Returns the error object with which a stream that had begun ends."""
    status = resolve_code_reply(failed.code).status
    return build_status_body(failed.message, status=status, code=failed.code, param=failed.param)
