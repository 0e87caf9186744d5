"""Chooses the form of a failure by the API that a request belongs to."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from starlette.types import Scope

from gateway.error_replies import build_openai_error_body, read_error_headers, resolve_error_reply
from gateway.http.dialect_errors.gemini import is_gemini_request, render_gemini_error
from gateway.http.dialect_errors.messages import is_messages_request, render_messages_error
from gateway.http.dialect_errors.ollama import is_ollama_request, render_ollama_error
from translation.representation.json_types import Json

RenderedError: TypeAlias = tuple[Json, int, dict[str, str]]
"""The body, the status and the headers of the reply for a failure."""


class _ErrorForm(NamedTuple):
    is_request: Callable[[Scope], bool]
    """Whether a request belongs to the API."""
    render: Callable[[Exception], RenderedError]


_FORMS: Final = (
    _ErrorForm(is_messages_request, render_messages_error),
    _ErrorForm(is_gemini_request, render_gemini_error),
    _ErrorForm(is_ollama_request, render_ollama_error),
)
"""The APIs whose errors have a form of their own."""


def render_error(error: Exception, scope: Scope | None) -> RenderedError:
    """Returns the reply for a failure, as `gateway/error_replies.py` defines it, in the form of the request's API.

    `scope` is the scope of the request; None if it is not known, or belongs to no dialect.
    """
    if scope is not None:
        for form in _FORMS:
            if form.is_request(scope):
                return form.render(error)
    return build_openai_error_body(error), resolve_error_reply(error).status, read_error_headers(error)
