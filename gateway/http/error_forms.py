"""Builds the replies to failures, in the form of the API that a request belongs to."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from starlette.responses import Response
from starlette.types import Scope

from gateway.error_replies import build_openai_error_body, read_error_headers, resolve_error_reply
from gateway.http.json_reply import build_json_reply
from gateway.logs import bind_failure
from translation.representation.json_types import Json

RenderedError: TypeAlias = tuple[Json, int, dict[str, str]]
"""The body, the status and the headers of the reply for a failure."""


class ErrorForm(NamedTuple):
    """The form of failures of an API that has another one than OpenAI's APIs."""

    is_request: Callable[[Scope], bool]
    """Whether a request belongs to the API."""
    render: Callable[[Exception], RenderedError]


ErrorReplyBuilder: TypeAlias = Callable[[Exception, Scope], Response]
"""Builds the HTTP reply for a failure of a request."""


def build_error_reply(error: Exception, scope: Scope | None = None, forms: Sequence[ErrorForm] = ()) -> Response:
    """Returns the HTTP reply for a failure by its row in `gateway/error_replies.py`, and adds its code to the log line.

    `scope` is the scope of the request. The first of `forms` whose API the request belongs to decides the form of the
    body; without one it has the form of OpenAI's APIs.
    """
    bind_failure(error)
    body, status, headers = _render_error(error, scope, forms)
    return build_json_reply(body, status, headers)


def _render_error(error: Exception, scope: Scope | None, forms: Sequence[ErrorForm]) -> RenderedError:
    if scope is not None:
        for form in forms:
            if form.is_request(scope):
                return form.render(error)
    return build_openai_error_body(error), resolve_error_reply(error).status, read_error_headers(error)
