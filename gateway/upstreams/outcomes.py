"""The outcomes of failed attempts as a table: which upstream may be asked next, and what the outcome says about the
upstream's health.

The table applies to attempts of which nothing was delivered to the client. docs/routing.md has the table too, made from
these rows.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from gateway.config.routing_settings import Judgement
from gateway.errors import TurnFailed
from providers.errors import (
    ConnectionsExhausted,
    ContextLengthExceeded,
    EngineUnavailable,
    ProviderError,
    UpstreamBroken,
    UpstreamGarbled,
    UpstreamModelNotFound,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from translation.errors import ProtocolViolation

ResultName: TypeAlias = Literal[
    "ok",
    "unreachable",
    "reset",
    "timeout",
    "overloaded",
    "rate_limited",
    "server_error",
    "unauthorized",
    "not_found",
    "rejected",
    "garbled",
    "cut",
    "client_gone",
]
"""What logs and metrics call the result of an attempt. `cut`: it failed after its content was delivered."""

NextRule: TypeAlias = Literal["yes", "if_unsafe", "if_configured", "never"]
"""Whether another upstream is asked: also if an upstream may have begun the turn (`if_unsafe`, by `retry_unsafe`), or
only for judgements of `fallback_on` (`if_configured`)."""

SameRule: TypeAlias = Literal["never", "after_backoff", "after_delay"]
"""Whether the same upstream is asked again, once all were tried: after a short wait, or after the delay it named."""

HealthEffect: TypeAlias = Literal["none", "failure", "half", "ejection"]


class Outcome(NamedTuple):
    """One row of the table."""

    title: str
    """The failures of the row, for docs."""
    result: ResultName
    next: NextRule
    same: SameRule = "never"
    health: HealthEffect = "none"
    is_free: bool = False
    """Whether a further attempt takes nothing from the retry budget, because nothing was sent."""
    is_reset: bool = False
    """Whether the upstream may have died, and with it all its turns. One further attempt of each turn is then free
    too."""
    yields: bool = False
    """Whether the client is shown an earlier failure instead, if there was one of another kind."""
    judgement: Judgement | None = None
    """The judgement of `fallback_on` that it is."""
    proves_alive: bool = False
    """Whether the upstream has judged the request, so that it is well."""


OUTCOMES: Final[dict[str, Outcome]] = {
    "unreachable": Outcome(
        "no connection: DNS, refused, timed out, TLS", "unreachable", "yes", "after_backoff", "failure", is_free=True
    ),
    "no_connection_free": Outcome("no free connection within `connect_s`", "overloaded", "yes", is_free=True),
    "reset": Outcome(
        "reset or closed after sending, before a reply", "reset", "if_unsafe", health="failure", is_reset=True
    ),
    "request_timeout": Outcome("status 408", "timeout", "yes", health="failure"),
    "server_error": Outcome("status 502, 504 or another 5xx", "server_error", "if_unsafe", health="failure"),
    "internal_error": Outcome("status 500", "server_error", "if_unsafe", health="half"),
    "overloaded": Outcome("status 503", "overloaded", "yes", "after_delay", "failure"),
    "passing_overload": Outcome("status 529 or 425", "overloaded", "yes", "after_delay"),
    "engine_unavailable": Outcome("an embedded engine is starting", "overloaded", "yes", "after_delay", "failure"),
    "rate_limited": Outcome("status 429", "rate_limited", "yes", "after_delay", yields=True),
    "quota": Outcome("status 402, or 429 with `insufficient_quota`", "rate_limited", "yes", yields=True),
    "unauthorized": Outcome("status 401", "unauthorized", "yes", health="ejection", yields=True),
    "forbidden": Outcome("status 403", "unauthorized", "yes", health="failure", yields=True),
    "not_found": Outcome("status 404", "not_found", "yes", health="ejection", yields=True),
    "unknown_reference": Outcome(
        "status 404 about another parameter than the model", "rejected", "yes", yields=True, proves_alive=True
    ),
    "rejected": Outcome("status 400, 409, 413, 422 or another 4xx", "rejected", "never", proves_alive=True),
    "context_length_exceeded": Outcome(
        "the prompt is too long",
        "rejected",
        "if_configured",
        judgement="context_length_exceeded",
        proves_alive=True,
    ),
    "content_filter": Outcome(
        "a content filter refuses, or ends a reply without content",
        "rejected",
        "if_configured",
        judgement="content_filter",
        proves_alive=True,
    ),
    "garbled": Outcome("a reply that is not of the protocol", "garbled", "if_unsafe", health="failure"),
    "broken": Outcome(
        "a stream that ends before content, a whole reply that breaks off",
        "reset",
        "if_unsafe",
        health="failure",
        is_reset=True,
    ),
    "timeout": Outcome("no content, or no reply, in time", "timeout", "if_unsafe", health="failure"),
}
"""The outcomes by their names. Everything else is no failure of an upstream."""

_BY_CLASS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (ConnectionsExhausted, "no_connection_free"),
    (UpstreamTimeout, "timeout"),
    (UpstreamBroken, "broken"),
    (UpstreamGarbled, "garbled"),
    (ProtocolViolation, "garbled"),
    (EngineUnavailable, "engine_unavailable"),
    (ContextLengthExceeded, "context_length_exceeded"),
    (UpstreamModelNotFound, "not_found"),
)

_BY_STATUS: Final = {
    401: "unauthorized",
    402: "quota",
    403: "forbidden",
    404: "not_found",
    408: "request_timeout",
    425: "passing_overload",
    429: "rate_limited",
    500: "internal_error",
    503: "overloaded",
    529: "passing_overload",
}

_BY_CODE: Final = {
    "insufficient_quota": "quota",
    "rate_limited": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "context_length_exceeded": "context_length_exceeded",
    "content_filter": "content_filter",
    "invalid_prompt": "rejected",
    "upstream_timeout": "timeout",
    "upstream_overloaded": "overloaded",
    "upstream_unauthorized": "unauthorized",
    "upstream_truncated": "broken",
    "upstream_disconnected": "broken",
    "upstream_garbled": "garbled",
    "model_not_found": "not_found",
    "server_is_overloaded": "overloaded",
}
"""Codes of failures within a reply of status 200. Every other code is `server_error`."""

_FILTER_WORDS: Final = ("content_filter", "content_policy_violation", "moderation")


def build_filter_failure() -> UpstreamRejected:
    """Returns the failure that stands for a reply which a content filter ended before it had content."""
    return UpstreamRejected("a content filter ended the reply", status=400, code="content_filter")


def find_outcome(error: Exception) -> Outcome | None:
    """Returns the outcome of an attempt that ended in this error; None if the error is not about an upstream."""
    if (name := _find_name(error)) is not None:
        return OUTCOMES[name]
    return None


def _find_name(error: Exception) -> str | None:
    if isinstance(error, TurnFailed):
        return _BY_CODE.get(error.failed.code, "server_error")
    if isinstance(error, UpstreamModelNotFound) and error.param not in (None, "model"):
        return "unknown_reference"  # the upstream names what the client sent, such as the id of a response
    if isinstance(error, UpstreamUnreachable):
        return "reset" if error.was_sent else "unreachable"
    for kind, name in _BY_CLASS:
        if isinstance(error, kind):
            return name
    if isinstance(error, UpstreamRejected):
        return _find_rejection(error)
    return "server_error" if isinstance(error, ProviderError) else None


def _find_rejection(error: UpstreamRejected) -> str:
    words = (error.code or "", error.kind or "")
    if isinstance(error, UpstreamRateLimited) and "insufficient_quota" in words:
        return "quota"
    if error.status in (400, 403) and any(word in text for word in _FILTER_WORDS for text in words):
        return "content_filter"
    if (name := _BY_STATUS.get(error.status)) is not None:
        return name
    if isinstance(error, UpstreamOverloaded):
        return "overloaded"
    if isinstance(error, UpstreamUnauthorized):
        return "unauthorized"
    return "server_error" if error.status >= 500 or error.status < 400 else "rejected"
