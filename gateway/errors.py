"""Every failure and what the client sees of it: one table, two renderings.

GatewayError
  NotAuthenticated     no key, or an unknown one
  UnknownModel         the name matches no model this key may use
  NotJson              the body is not one JSON object
  BodyTooLarge         the body is over `server.max_body_mb`
  BodyTooSlow          the body did not arrive in time
  UnsupportedEncoding  the body is compressed
  NotFound             no such path, or no such object
  MethodNotAllowed     the path exists, the method does not
  OriginRefused        a page of another host asked for a WebSocket
  TooManyConnections   `websocket.max_connections` are open
  TooManyQueued        a WebSocket has too many turns waiting
  ShuttingDown         the server stops and the time to drain is over
  StoreUnavailable     the database is down, full, read-only or too slow
  CompactionFailed     the model wrote no whole summary of the conversation
  TurnFailed           the upstream reported a failure inside a good reply, before any content
"""

from collections.abc import Mapping
from typing import NamedTuple

from providers import errors as upstream
from translation.errors import InvalidRequest, ProtocolViolation, Unrepresentable
from translation.representation.events import Failed
from translation.representation.json_types import Json


class GatewayError(Exception):
    """Root of what the gateway itself raises. The message is for the client."""

    def __init__(self, message: str, *, param: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = dict(headers or {})


class NotAuthenticated(GatewayError):
    pass


class UnknownModel(GatewayError):
    pass


class NotJson(GatewayError):
    pass


class BodyTooLarge(GatewayError):
    pass


class BodyTooSlow(GatewayError):
    pass


class UnsupportedEncoding(GatewayError):
    pass


class NotFound(GatewayError):
    pass


class MethodNotAllowed(GatewayError):
    pass


class OriginRefused(GatewayError):
    pass


class TooManyConnections(GatewayError):
    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"retry-after": "1"})


class TooManyQueued(GatewayError):
    pass


class ShuttingDown(GatewayError):
    def __init__(self) -> None:
        super().__init__("the server is shutting down; send the request again", headers={"retry-after": "1"})


class StoreUnavailable(GatewayError):
    def __init__(self, message: str = "the store cannot be reached; `store: false` needs none") -> None:
        super().__init__(message, headers={"retry-after": "1"})


class CompactionFailed(GatewayError):
    pass


class TurnFailed(GatewayError):
    """`failed` is the event the stream would have ended in."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, param=failed.param)
        self.failed = failed


class Answer(NamedTuple):
    """How a failure is answered. Where `tell` is set, it replaces the failure's own message."""

    status: int
    type: str
    code: str | None
    tell: str | None = None


_INVALID = "invalid_request_error"
_SERVER = "server_error"

ANSWERS: dict[type[Exception], Answer] = {
    NotAuthenticated: Answer(401, _INVALID, "invalid_api_key"),
    UnknownModel: Answer(404, _INVALID, "model_not_found"),
    NotJson: Answer(400, _INVALID, None),
    BodyTooLarge: Answer(413, _INVALID, "request_too_large"),
    BodyTooSlow: Answer(408, _INVALID, "request_timeout"),
    UnsupportedEncoding: Answer(415, _INVALID, "unsupported_content_encoding"),
    NotFound: Answer(404, _INVALID, None),
    MethodNotAllowed: Answer(405, _INVALID, "method_not_allowed"),
    OriginRefused: Answer(403, _INVALID, "origin_not_allowed"),
    TooManyConnections: Answer(503, _SERVER, "too_many_connections"),
    TooManyQueued: Answer(429, "rate_limit_error", "websocket_queue_full"),
    ShuttingDown: Answer(503, _SERVER, "server_shutting_down"),
    StoreUnavailable: Answer(503, _SERVER, "store_unavailable"),
    CompactionFailed: Answer(502, _SERVER, "compaction_failed"),
    InvalidRequest: Answer(400, _INVALID, "invalid_value"),
    Unrepresentable: Answer(400, _INVALID, "unsupported_parameter"),
    ProtocolViolation: Answer(502, _SERVER, "upstream_garbled"),
    upstream.UpstreamUnreachable: Answer(502, _SERVER, "upstream_unreachable"),
    upstream.UpstreamTimeout: Answer(504, _SERVER, "upstream_timeout"),
    upstream.UpstreamBroken: Answer(502, _SERVER, "upstream_disconnected"),
    upstream.UpstreamGarbled: Answer(502, _SERVER, "upstream_garbled"),
    upstream.EngineUnavailable: Answer(503, _SERVER, "engine_unavailable"),
    upstream.UpstreamRejected: Answer(502, _SERVER, "upstream_error"),
    upstream.UpstreamRateLimited: Answer(429, "rate_limit_error", "rate_limit_exceeded"),
    upstream.UpstreamOverloaded: Answer(503, _SERVER, "upstream_overloaded"),
    upstream.UpstreamUnauthorized: Answer(
        502, _SERVER, "upstream_unauthorized", tell="the upstream refused the gateway's own credentials"
    ),
    upstream.ContextLengthExceeded: Answer(400, _INVALID, "context_length_exceeded"),
    upstream.UpstreamModelNotFound: Answer(404, _INVALID, "model_not_found"),
    Exception: Answer(500, _SERVER, "internal_error", tell="the gateway failed; its log says why"),
}

REJECTED: dict[int, Answer] = {
    400: Answer(400, _INVALID, "upstream_rejected"),
    402: Answer(429, "insufficient_quota", "insufficient_quota"),
    405: Answer(502, _SERVER, "upstream_error"),
    408: Answer(504, _SERVER, "upstream_timeout"),
    409: Answer(409, _INVALID, "conflict"),
    413: Answer(413, _INVALID, "request_too_large"),
    415: Answer(502, _SERVER, "upstream_error"),
    422: Answer(400, _INVALID, "upstream_rejected"),
    504: Answer(504, _SERVER, "upstream_timeout"),
}
"""An upstream's error status -> ours. Other 4xx are the client's 400, everything else is a 502."""

_QUOTA = REJECTED[402]
"""Quotas and rate limits share the status 429; official clients and Codex tell them apart by the code."""

FAILURES: dict[str, Answer] = {
    "insufficient_quota": _QUOTA,
    "rate_limited": Answer(429, "rate_limit_error", "rate_limit_exceeded"),
    "rate_limit_exceeded": Answer(429, "rate_limit_error", "rate_limit_exceeded"),
    "context_length_exceeded": Answer(400, _INVALID, "context_length_exceeded"),
    "invalid_prompt": Answer(400, _INVALID, "invalid_prompt"),
    "upstream_timeout": Answer(504, _SERVER, "upstream_timeout"),
    "upstream_overloaded": Answer(503, _SERVER, "upstream_overloaded"),
    "tool_call_parse_error": Answer(502, "tool_call_parse_error", "tool_call_parse_error"),
}
"""Codes of Failed events that are more than a plain 502."""


def answer(error: Exception) -> Answer:
    """The most specific row; subclasses need not be listed."""
    if isinstance(error, TurnFailed):
        code = error.failed.code
        return FAILURES.get(code, Answer(502, _SERVER, code))
    row = next(ANSWERS[kind] for kind in type(error).__mro__ if kind in ANSWERS)
    if isinstance(error, InvalidRequest):
        return row._replace(code=error.code)
    if isinstance(error, upstream.UpstreamRateLimited) and _QUOTA.code in (error.code, error.kind):
        return _QUOTA
    if type(error) is upstream.UpstreamRejected:
        default = REJECTED[400] if 400 <= error.status < 500 else row
        return REJECTED.get(error.status, default)
    return row


def message(error: Exception) -> str:
    """What the client may read."""
    row = answer(error)
    return row.tell or str(error) or "unknown error"


def as_body(error: Exception) -> Json:
    """The error object of an HTTP answer: all four keys, as both APIs have them."""
    row = answer(error)
    param = getattr(error, "param", None)
    return {"error": {"message": message(error), "type": row.type, "param": param, "code": row.code}}


def as_event(error: Exception) -> Failed:
    """The last event of a stream that had begun; the same words as the HTTP answer."""
    row = answer(error)
    return Failed(row.code or row.type, message(error), getattr(error, "param", None))


def headers(error: Exception) -> dict[str, str]:
    """Headers that help the client wait or choose another way."""
    return dict(getattr(error, "headers", {}))
