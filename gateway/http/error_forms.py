"""Builds the replies to failures, in the form of the API that a request belongs to.

The cause of a failure is bound to the log line of its request.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import httpx
from starlette.responses import Response
from starlette.types import Scope

from gateway.error_replies import build_openai_error_body, read_error_headers, resolve_error_reply
from gateway.errors import FileStorageUnavailable, GatewayError, TurnFailed, UnknownModel
from gateway.http.headers import build_upstream_headers
from gateway.http.json_reply import build_json_reply
from gateway.logs import FAILED_UPSTREAM, MAX_LOGGED_CHARS, bind_fields, read_bound_upstream
from providers.errors import ProviderError, UpstreamBroken, UpstreamRejected, UpstreamTimeout, UpstreamUnreachable
from translation.representation.json_types import Json

_MAX_CAUSE_CHARS: Final = 200

_upstream_addresses: Mapping[str, str] = {}
"""Provider's name -> its address."""

RenderedError: TypeAlias = tuple[Json, int, dict[str, str]]
"""The body, the status and the headers of the reply for a failure."""


class ErrorForm(NamedTuple):
    """The form of failures of an API that has another one than OpenAI's APIs."""

    is_request: Callable[[Scope], bool]
    """Whether a request belongs to the API."""
    render: Callable[[Exception], RenderedError]


ErrorReplyBuilder: TypeAlias = Callable[[Exception, Scope], Response]
"""Builds the HTTP reply for a failure of a request."""


def build_error_reply(
    error: Exception,
    scope: Scope | None = None,
    forms: Sequence[ErrorForm] = (),
    names_upstream: Callable[[], bool] = lambda: False,
) -> Response:
    """Returns the HTTP reply for a failure by its row in `gateway/error_replies.py`, and adds its code to the log line.

    `scope` is the scope of the request. The first of `forms` whose API the request belongs to decides the form of the
    body; without one it has the form of OpenAI's APIs. `names_upstream` returns whether replies to requests for models
    have the headers about their upstreams.
    """
    bind_failure(error)
    body, status, headers = _render_error(error, scope, forms)
    if names_upstream() and (bound_upstream := read_bound_upstream()) is not None:
        headers = {**build_upstream_headers(*bound_upstream), **headers}
    return build_json_reply(body, status, headers)


def _render_error(error: Exception, scope: Scope | None, forms: Sequence[ErrorForm]) -> RenderedError:
    if scope is not None:
        for form in forms:
            if form.is_request(scope):
                return form.render(error)
    return build_openai_error_body(error), resolve_error_reply(error).status, read_error_headers(error)


def name_upstreams(addresses: Mapping[str, str]) -> None:
    """Sets the address that log lines of failures have for each provider, by its name. Replaces those set before."""
    global _upstream_addresses
    _upstream_addresses = addresses


def bind_failure(error: Exception) -> None:
    """Adds the cause of a failure to the request's log line: the error code and its status.

    Of an upstream's failure it adds the upstream's address, and its status or the network error; of an unknown model
    the name that was requested. The message is not logged, since it may quote the request.
    """
    row = resolve_error_reply(error)
    cause = error.__cause__
    is_network_failure = isinstance(error, UpstreamUnreachable | UpstreamTimeout | UpstreamBroken)
    bind_fields(error=row.code or row.type, error_status=row.status)
    if isinstance(error, ProviderError | TurnFailed):
        bind_fields(**{FAILED_UPSTREAM: True})
    if isinstance(error, GatewayError) and error.limit:
        bind_fields(limit=error.limit)
    if isinstance(error, UnknownModel):
        bind_fields(model=error.model[:MAX_LOGGED_CHARS])
    if isinstance(error, FileStorageUnavailable):
        bind_fields(cause=error.reason[:_MAX_CAUSE_CHARS])
    if isinstance(error, ProviderError) and (address := _upstream_addresses.get(error.provider)) is not None:
        bind_fields(upstream=address)
    if isinstance(error, UpstreamRejected) and error.status is not None:
        bind_fields(upstream_status=error.status)
    if cause is not None and (is_network_failure or isinstance(cause, httpx.TransportError)):
        bind_fields(cause=f"{type(cause).__name__}: {cause}"[:_MAX_CAUSE_CHARS])
