"""Renders failures for clients of Ollama's API: `{"error": "..."}`."""

from typing import Final

from starlette.types import Scope

from gateway.error_replies import build_message_with_place, read_error_headers, resolve_error_reply
from gateway.http.error_forms import ErrorForm, RenderedError
from gateway.http.request_docs import TEXT_SCHEMA, build_object_schema, document_failures
from translation.ollama.client.reply_lines import build_failure

_PREFIX: Final = "/api/"
_OTHER_PREFIX: Final = "/api/v1/"
"""The prefix of paths of other servers, whose clients speak OpenAI's APIs."""


def is_ollama_request(scope: Scope) -> bool:
    """Whether the client of a request speaks Ollama's API, by its path."""
    path: str = scope["path"]
    return path.startswith(_PREFIX) and not path.startswith(_OTHER_PREFIX)


def render_ollama_error(error: Exception) -> RenderedError:
    """Returns body, status and headers of the reply for a failure."""
    return build_failure(build_message_with_place(error)), resolve_error_reply(error).status, read_error_headers(error)


OLLAMA_ERRORS: Final = ErrorForm(is_ollama_request, render_ollama_error)

OLLAMA_FAILURES: Final = document_failures(
    "Any failure, in the form of Ollama's API.", build_object_schema(["error"], error=TEXT_SCHEMA)
)
"""The value of `responses` for the routes of the API."""
