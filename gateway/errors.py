"""Every failure and what the client sees of it: one table, rendered as an HTTP error or as the last event of a stream.

GatewayError
  NotAuthenticated     no API key, or an unknown one
  NotAdministrator     the key may not change what the route is about
  ServerNameTaken      another MCP server has the label or the prefix
  UnknownModel         the name matches no model that this key may use
  NotJson              the body is not one JSON object
  HeadTooLarge         the first line and the headers are over `server.max_head_kb` or `server.max_head_fields`
  TargetTooLong        the path and query alone are over `server.max_head_kb`
  HeadTooSlow          the head did not arrive within `server.head_s`
  BodyTooLarge         the body is over `server.max_body_mb`
  BodyTooSlow          the body did not arrive in time
  UnsupportedEncoding  the body is compressed
  NotFound             no such path, or no such object
  MethodNotAllowed     the path exists, the method does not
  OriginRefused        a page of another host asked for a WebSocket
  TooManyConnections   `websocket.max_connections` are open
  TooManyQueued        a WebSocket has too many turns waiting
  ThreadNotFound       a thread of the Messages API has no such message, or it has not ended well
  RunInProgress        another run of an AG-UI thread has not ended
  IdempotencyKeyReused  the Idempotency-Key belongs to a request with another body
  IdempotencyKeyInUse  other requests with the same Idempotency-Key begin and fail all the time
  TooManyRequests      a key has `limits.open_requests` open
  TooManySockets       a key has `limits.websockets` open
  TooManyJobs          an owner has `limits.background_jobs` queued or running
  TooManyKeys          an owner has `limits.idempotency_keys` stored
  EventLogFull         the event logs of an owner have `limits.event_log_mb`
  ShuttingDown         the server stops and the time to drain is over
  StoreUnavailable     the database is down, full, read-only or too slow
  CredentialsNotStored  the replica that had the credentials of a background response is gone
  CompactionFailed     the model wrote no whole summary of the conversation
  ToolListFailed       an MCP server that the request needs does not list its tools
  StoredFailure        the response that a request repeats, or waited for, has failed
  TurnFailed           the upstream reported a failure within a reply of status 200, before any content
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from providers import errors as upstream
from translation.errors import InvalidRequest, ProtocolViolation, Unrepresentable
from translation.representation.events import Failed
from translation.representation.json_types import Json


class GatewayError(Exception):
    """Root of the exceptions that the gateway itself raises.

    `message` is for the client, `param` names the request's parameter at fault, and `headers` are added to the reply.
    """

    def __init__(self, message: str, *, param: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = dict(headers or {})


class NotAuthenticated(GatewayError):
    pass


class NotAdministrator(GatewayError):
    pass


class ServerNameTaken(GatewayError):
    pass


class UnknownModel(GatewayError):
    pass


class NotJson(GatewayError):
    pass


class HeadTooLarge(GatewayError):
    pass


class TargetTooLong(GatewayError):
    pass


class HeadTooSlow(GatewayError):
    pass


class BodyTooLarge(GatewayError):
    pass


class BodyTooSlow(GatewayError):
    pass


class UnsupportedEncoding(GatewayError):
    pass


class NotFound(GatewayError):
    pass


class ThreadNotFound(NotFound):
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


class RunInProgress(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "a run of this thread is in progress: wait for its end", param="threadId", headers={"retry-after": "1"}
        )


class IdempotencyKeyReused(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "this Idempotency-Key was sent with another body: send a new key with each new request",
            param="Idempotency-Key",
        )


class IdempotencyKeyInUse(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "other requests with this Idempotency-Key begin at the same time: try again",
            param="Idempotency-Key",
            headers={"retry-after": "1"},
        )


class OwnerLimitReached(GatewayError):
    """The parent of the errors about limits for one owner."""

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"retry-after": "1"})


class TooManyRequests(OwnerLimitReached):
    def __init__(self, limit: int) -> None:
        super().__init__(f"this API key has {limit} open requests: wait for one to end (limits.open_requests)")


class TooManySockets(OwnerLimitReached):
    def __init__(self, limit: int) -> None:
        super().__init__(f"this API key has {limit} open WebSockets: close one, or use HTTP (limits.websockets)")


class TooManyKeys(OwnerLimitReached):
    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} idempotency keys are stored for this owner: wait until some expire (store.idempotency_hours), or "
            "raise limits.idempotency_keys"
        )


class TooManyJobs(OwnerLimitReached):
    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} responses are queued or running: wait for one to end (limits.background_jobs)")


class EventLogFull(OwnerLimitReached):
    def __init__(self, limit_mb: float) -> None:
        super().__init__(
            f"the streams that can be resumed have {limit_mb:g} MB: delete responses, or leave out 'resumable' and "
            "'background' with 'stream' (limits.event_log_mb)"
        )


class ShuttingDown(GatewayError):
    def __init__(self) -> None:
        super().__init__("the server is shutting down; send the request again", headers={"retry-after": "1"})


class StoreUnavailable(GatewayError):
    def __init__(self, message: str = "the store is unavailable: try again later, or send store: false") -> None:
        super().__init__(message, headers={"retry-after": "1"})


class CredentialsNotStored(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "the server that ran this response has stopped, and the credentials of its tools were not stored: send the "
            "request again. For another server to go on with such a response, the gateway's operator has to configure "
            "sealing.keys, the same on every server; credentials are then stored encrypted"
        )


class ToolListFailed(GatewayError):
    pass


class CompactionFailed(GatewayError):
    pass


class StoredFailure(GatewayError):
    """A stored response that has failed, as the error of a request that gets it instead of a run of its own."""

    def __init__(self, response: Json) -> None:
        error = response["error"]
        super().__init__(f"{error['message']} (response {response['id']})", param=error.get("param"))
        self.code: str = error.get("type") or error["code"]
        """The code of the error table, which the stored error may have replaced by the nearest of the API."""


class TurnFailed(GatewayError):
    """A turn ended in the event `failed`, before any content was sent."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, param=failed.param)
        self.failed = failed


class ErrorReply(NamedTuple):
    """The status and the error object's `type` and `code` for a failure.

    `fixed_message`, if set, replaces the exception's own message, which could reveal details of the server.
    """

    status: int
    type: str
    code: str | None
    fixed_message: str | None = None


_INVALID_TYPE = "invalid_request_error"
_SERVER_TYPE = "server_error"

ERROR_REPLIES: dict[type[Exception], ErrorReply] = {
    NotAuthenticated: ErrorReply(401, _INVALID_TYPE, "invalid_api_key"),
    NotAdministrator: ErrorReply(403, _INVALID_TYPE, "administrator_required"),
    ServerNameTaken: ErrorReply(409, _INVALID_TYPE, "mcp_server_conflict"),
    UnknownModel: ErrorReply(404, _INVALID_TYPE, "model_not_found"),
    NotJson: ErrorReply(400, _INVALID_TYPE, None),
    HeadTooLarge: ErrorReply(431, _INVALID_TYPE, "request_head_too_large"),
    TargetTooLong: ErrorReply(414, _INVALID_TYPE, "request_target_too_long"),
    HeadTooSlow: ErrorReply(408, _INVALID_TYPE, "request_timeout"),
    BodyTooLarge: ErrorReply(413, _INVALID_TYPE, "request_too_large"),
    BodyTooSlow: ErrorReply(408, _INVALID_TYPE, "request_timeout"),
    UnsupportedEncoding: ErrorReply(415, _INVALID_TYPE, "unsupported_content_encoding"),
    NotFound: ErrorReply(404, _INVALID_TYPE, None),
    ThreadNotFound: ErrorReply(404, _INVALID_TYPE, "thread_not_found"),
    MethodNotAllowed: ErrorReply(405, _INVALID_TYPE, "method_not_allowed"),
    OriginRefused: ErrorReply(403, _INVALID_TYPE, "origin_not_allowed"),
    TooManyConnections: ErrorReply(503, _SERVER_TYPE, "too_many_connections"),
    TooManyQueued: ErrorReply(429, "rate_limit_error", "websocket_queue_full"),
    RunInProgress: ErrorReply(409, _INVALID_TYPE, "run_in_progress"),
    IdempotencyKeyReused: ErrorReply(422, _INVALID_TYPE, "idempotency_key_reused"),
    IdempotencyKeyInUse: ErrorReply(409, _INVALID_TYPE, "idempotency_key_in_use"),
    TooManyKeys: ErrorReply(429, "rate_limit_error", "too_many_idempotency_keys"),
    TooManyRequests: ErrorReply(429, "rate_limit_error", "too_many_open_requests"),
    TooManySockets: ErrorReply(429, "rate_limit_error", "too_many_websockets"),
    TooManyJobs: ErrorReply(429, "rate_limit_error", "too_many_background_jobs"),
    EventLogFull: ErrorReply(429, "rate_limit_error", "event_log_full"),
    ShuttingDown: ErrorReply(503, _SERVER_TYPE, "server_shutting_down"),
    StoreUnavailable: ErrorReply(503, _SERVER_TYPE, "store_unavailable"),
    CredentialsNotStored: ErrorReply(503, _SERVER_TYPE, "credentials_not_stored"),
    CompactionFailed: ErrorReply(502, _SERVER_TYPE, "compaction_failed"),
    ToolListFailed: ErrorReply(424, "external_connector_error", "external_connector_error"),
    InvalidRequest: ErrorReply(400, _INVALID_TYPE, "invalid_value"),
    Unrepresentable: ErrorReply(400, _INVALID_TYPE, "unsupported_parameter"),
    ProtocolViolation: ErrorReply(502, _SERVER_TYPE, "upstream_garbled"),
    upstream.UpstreamUnreachable: ErrorReply(502, _SERVER_TYPE, "upstream_unreachable"),
    upstream.UpstreamTimeout: ErrorReply(504, _SERVER_TYPE, "upstream_timeout"),
    upstream.UpstreamBroken: ErrorReply(502, _SERVER_TYPE, "upstream_disconnected"),
    upstream.UpstreamGarbled: ErrorReply(502, _SERVER_TYPE, "upstream_garbled"),
    upstream.EngineUnavailable: ErrorReply(503, _SERVER_TYPE, "engine_unavailable"),
    upstream.UpstreamRejected: ErrorReply(502, _SERVER_TYPE, "upstream_error"),
    upstream.UpstreamRateLimited: ErrorReply(429, "rate_limit_error", "rate_limit_exceeded"),
    upstream.UpstreamOverloaded: ErrorReply(503, _SERVER_TYPE, "upstream_overloaded"),
    upstream.UpstreamUnauthorized: ErrorReply(
        502, _SERVER_TYPE, "upstream_unauthorized", fixed_message="the upstream refused the gateway's own credentials"
    ),
    upstream.ContextLengthExceeded: ErrorReply(400, _INVALID_TYPE, "context_length_exceeded"),
    upstream.UpstreamModelNotFound: ErrorReply(404, _INVALID_TYPE, "model_not_found"),
    Exception: ErrorReply(
        500, _SERVER_TYPE, "internal_error", fixed_message="the gateway failed: its log has the details"
    ),
}

REJECTION_REPLIES: dict[int, ErrorReply] = {
    400: ErrorReply(400, _INVALID_TYPE, "upstream_rejected"),
    402: ErrorReply(429, "insufficient_quota", "insufficient_quota"),
    405: ErrorReply(502, _SERVER_TYPE, "upstream_error"),
    408: ErrorReply(504, _SERVER_TYPE, "upstream_timeout"),
    409: ErrorReply(409, _INVALID_TYPE, "conflict"),
    413: ErrorReply(413, _INVALID_TYPE, "request_too_large"),
    415: ErrorReply(502, _SERVER_TYPE, "upstream_error"),
    422: ErrorReply(400, _INVALID_TYPE, "upstream_rejected"),
    504: ErrorReply(504, _SERVER_TYPE, "upstream_timeout"),
}
"""Maps an upstream's error status to the reply. Other 4xx become the reply of 400; everything else becomes a 502."""

_CODE_PATTERN = re.compile(r"[A-Za-z][\w.-]{0,63}")

_QUOTA_REPLY = REJECTION_REPLIES[402]
"""Quotas and rate limits share the status 429. Official clients and Codex distinguish them by the code."""

FAILURE_REPLIES: dict[str, ErrorReply] = {
    "insufficient_quota": _QUOTA_REPLY,
    "rate_limited": ErrorReply(429, "rate_limit_error", "rate_limit_exceeded"),
    "rate_limit_exceeded": ErrorReply(429, "rate_limit_error", "rate_limit_exceeded"),
    "context_length_exceeded": ErrorReply(400, _INVALID_TYPE, "context_length_exceeded"),
    "invalid_prompt": ErrorReply(400, _INVALID_TYPE, "invalid_prompt"),
    "upstream_timeout": ErrorReply(504, _SERVER_TYPE, "upstream_timeout"),
    "upstream_overloaded": ErrorReply(503, _SERVER_TYPE, "upstream_overloaded"),
    "tool_call_parse_error": ErrorReply(502, "tool_call_parse_error", "tool_call_parse_error"),
}
"""Maps codes of Failed events to replies. Every other code is a 502."""


def resolve_code_reply(code: str) -> ErrorReply:
    """Returns the reply for the code of a failure, which is one of any table. Every other code is a 502."""
    if code == "interrupted":
        return ErrorReply(503, _SERVER_TYPE, code)
    rows = (*ERROR_REPLIES.values(), *REJECTION_REPLIES.values())
    return FAILURE_REPLIES.get(code) or next(
        (row for row in rows if row.code == code), ErrorReply(502, _SERVER_TYPE, code)
    )


def resolve_error_reply(error: Exception) -> ErrorReply:
    """Returns the reply for an exception: the row of its most specific class in the tables above.

    A subclass without a row has its parent's. TurnFailed, InvalidRequest and upstream rejections are refined by their
    own code or status.
    """
    if isinstance(error, TurnFailed):
        code = error.failed.code
        return FAILURE_REPLIES.get(code, ErrorReply(502, _SERVER_TYPE, code))
    if isinstance(error, StoredFailure):
        return resolve_code_reply(error.code)._replace(fixed_message=None)
    row = next(ERROR_REPLIES[kind] for kind in type(error).__mro__ if kind in ERROR_REPLIES)
    if isinstance(error, InvalidRequest):
        return row._replace(code=error.code)
    if isinstance(error, upstream.UpstreamRateLimited) and _QUOTA_REPLY.code in (error.code, error.kind):
        return _QUOTA_REPLY
    if type(error) is upstream.UpstreamRejected:
        default = REJECTION_REPLIES[400] if 400 <= error.status < 500 else row
        return REJECTION_REPLIES.get(error.status, default)
    return row


def client_message(error: Exception) -> str:
    """Returns the message that the client may read."""
    return resolve_error_reply(error).fixed_message or str(error) or "unknown error"


def error_body(error: Exception) -> Json:
    """Returns the JSON body of an HTTP error. Its error object always has all four keys, as in both APIs.

    If an upstream refused the request with another code, that code is in `upstream_code`.
    """
    row = resolve_error_reply(error)
    param = getattr(error, "param", None)
    error_object: Json = {"message": client_message(error), "type": row.type, "param": param, "code": row.code}
    if (upstream_code := _upstream_code(error, row)) is not None:
        error_object["upstream_code"] = upstream_code
    return {"error": error_object}


def _upstream_code(error: Exception, row: ErrorReply) -> str | None:
    """Returns the code of an upstream's refusal, if it has one that is not the row's. Some send the status as code."""
    if not isinstance(error, upstream.UpstreamRejected) or row.fixed_message is not None:
        return None
    return code if (code := error.code) and code != row.code and _CODE_PATTERN.fullmatch(code) else None


def failed_event(error: Exception) -> Failed:
    """Returns the last event of a stream that had begun. Its message is that of the HTTP error."""
    row = resolve_error_reply(error)
    return Failed(row.code or row.type, client_message(error), getattr(error, "param", None))


def error_headers(error: Exception) -> dict[str, str]:
    """Returns the headers of an HTTP error, such as `retry-after` and `www-authenticate`."""
    return dict(getattr(error, "headers", {}))
