"""The reply for every failure: one table, rendered as an HTTP error or as the last event of a stream."""

import re
from typing import NamedTuple

from gateway import errors
from gateway.errors import StoredFailure, TurnFailed
from providers import errors as upstream
from translation.errors import InvalidRequest, ProtocolViolation, Unrepresentable
from translation.representation.events import Failed
from translation.representation.json_types import Json


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
    errors.NotAuthenticated: ErrorReply(401, _INVALID_TYPE, "invalid_api_key"),
    errors.NotAdministrator: ErrorReply(403, _INVALID_TYPE, "administrator_required"),
    errors.ServerNameTaken: ErrorReply(409, _INVALID_TYPE, "mcp_server_conflict"),
    errors.UnknownModel: ErrorReply(404, _INVALID_TYPE, "model_not_found"),
    errors.NotJson: ErrorReply(400, _INVALID_TYPE, None),
    errors.HeadMalformed: ErrorReply(400, _INVALID_TYPE, "malformed_request"),
    errors.HeadTooLarge: ErrorReply(431, _INVALID_TYPE, "request_head_too_large"),
    errors.TargetTooLong: ErrorReply(414, _INVALID_TYPE, "request_target_too_long"),
    errors.HeadTooSlow: ErrorReply(408, _INVALID_TYPE, "request_timeout"),
    errors.BodyTooLarge: ErrorReply(413, _INVALID_TYPE, "request_too_large"),
    errors.BodyTooSlow: ErrorReply(408, _INVALID_TYPE, "request_timeout"),
    errors.UnsupportedEncoding: ErrorReply(415, _INVALID_TYPE, "unsupported_content_encoding"),
    errors.UnsupportedContentType: ErrorReply(415, _INVALID_TYPE, "unsupported_content_type"),
    errors.NotFound: ErrorReply(404, _INVALID_TYPE, None),
    errors.ThreadNotFound: ErrorReply(404, _INVALID_TYPE, "thread_not_found"),
    errors.FileNotFound: ErrorReply(404, _INVALID_TYPE, "file_not_found"),
    errors.UploadNotFound: ErrorReply(404, _INVALID_TYPE, "upload_not_found"),
    errors.FileTooLarge: ErrorReply(413, _INVALID_TYPE, "file_too_large"),
    errors.VectorStoreNotFound: ErrorReply(404, _INVALID_TYPE, "vector_store_not_found"),
    errors.ContainerNotFound: ErrorReply(404, _INVALID_TYPE, "container_not_found"),
    errors.StoreFileNotFound: ErrorReply(404, _INVALID_TYPE, "file_not_found"),
    errors.FileBatchNotFound: ErrorReply(404, _INVALID_TYPE, "file_batch_not_found"),
    errors.VectorStoreExpired: ErrorReply(400, _INVALID_TYPE, "vector_store_expired"),
    errors.VectorStoreQuotaExceeded: ErrorReply(429, "rate_limit_error", "vector_store_quota_exceeded"),
    errors.StorageQuotaExceeded: ErrorReply(429, "rate_limit_error", "storage_quota_exceeded"),
    errors.FileStorageUnavailable: ErrorReply(503, _SERVER_TYPE, "file_storage_unavailable"),
    errors.MethodNotAllowed: ErrorReply(405, _INVALID_TYPE, "method_not_allowed"),
    errors.HostRefused: ErrorReply(421, _INVALID_TYPE, "host_not_allowed"),
    errors.OriginRefused: ErrorReply(403, _INVALID_TYPE, "origin_not_allowed"),
    errors.TooManyConnections: ErrorReply(503, _SERVER_TYPE, "too_many_connections"),
    errors.TooManyQueued: ErrorReply(429, "rate_limit_error", "websocket_queue_full"),
    errors.RunInProgress: ErrorReply(409, _INVALID_TYPE, "run_in_progress"),
    errors.IdempotencyKeyReused: ErrorReply(422, _INVALID_TYPE, "idempotency_key_reused"),
    errors.IdempotencyKeyInUse: ErrorReply(409, _INVALID_TYPE, "idempotency_key_in_use"),
    errors.TooManyKeys: ErrorReply(429, "rate_limit_error", "too_many_idempotency_keys"),
    errors.TooManyRequests: ErrorReply(429, "rate_limit_error", "too_many_open_requests"),
    errors.TooManySockets: ErrorReply(429, "rate_limit_error", "too_many_websockets"),
    errors.TooManyJobs: ErrorReply(429, "rate_limit_error", "too_many_background_jobs"),
    errors.EventLogFull: ErrorReply(429, "rate_limit_error", "event_log_full"),
    errors.ShuttingDown: ErrorReply(503, _SERVER_TYPE, "server_shutting_down"),
    errors.StoreUnavailable: ErrorReply(503, _SERVER_TYPE, "store_unavailable"),
    errors.CredentialsNotStored: ErrorReply(503, _SERVER_TYPE, "credentials_not_stored"),
    errors.CompactionFailed: ErrorReply(502, _SERVER_TYPE, "compaction_failed"),
    errors.ToolListFailed: ErrorReply(424, "external_connector_error", "external_connector_error"),
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
    upstream.ConnectionsExhausted: ErrorReply(503, _SERVER_TYPE, "upstream_overloaded"),
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
    425: ErrorReply(503, _SERVER_TYPE, "upstream_overloaded"),
    504: ErrorReply(504, _SERVER_TYPE, "upstream_timeout"),
}
"""Maps an upstream's error status to the reply. Other 4xx become the reply of 400; everything else becomes a 502."""

_CODE_PATTERN = re.compile(r"[A-Za-z][\w.-]{0,63}")

_LIST_ENTRY = re.compile(r"[^\[\]]+\[\d+\]")
"""Matches the entry of a list at the beginning of a path: `messages[1]` of `messages[1].content[0]`."""

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
    "upstream_truncated": ErrorReply(502, _SERVER_TYPE, "upstream_truncated"),
    "interrupted": ErrorReply(503, _SERVER_TYPE, "interrupted"),
    "tool_call_parse_error": ErrorReply(502, "tool_call_parse_error", "tool_call_parse_error"),
}
"""Maps codes of Failed events to replies. Every other code is a 502."""


def resolve_code_reply(code: str) -> ErrorReply:
    """Returns the reply for an error code of any of the tables. Every other code is a 502."""
    rows = (*ERROR_REPLIES.values(), *REJECTION_REPLIES.values())
    return FAILURE_REPLIES.get(code) or next(
        (row for row in rows if row.code == code), ErrorReply(502, _SERVER_TYPE, code)
    )


def resolve_error_reply(error: Exception) -> ErrorReply:
    """Returns the reply for an exception: the row of its most specific class in the tables above.

    A subclass without a row has the row of its parent. TurnFailed, InvalidRequest and upstream rejections are refined
    by their own code or status.
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


def choose_client_message(error: Exception) -> str:
    """Returns the message that the client may read."""
    return resolve_error_reply(error).fixed_message or str(error) or "unknown error"


def build_message_with_place(error: Exception) -> str:
    """Returns the client's message, for APIs whose errors have no key for the field at fault.

    A place within a list is put before it, unless the message names the entry. Messages name other fields themselves.
    """
    message, param = choose_client_message(error), getattr(error, "param", None)
    entry = _LIST_ENTRY.match(param) if isinstance(param, str) else None
    return message if entry is None or entry[0] in message else f"{param}: {message}"


def build_openai_error_body(error: Exception) -> Json:
    """Returns the JSON body of an HTTP error of OpenAI's APIs. Its error object always has all four keys.

    If an upstream refused the request with another code, that code is in `upstream_code`.
    """
    row = resolve_error_reply(error)
    param = getattr(error, "param", None)
    error_object: Json = {"message": choose_client_message(error), "type": row.type, "param": param, "code": row.code}
    if (upstream_code := _upstream_code(error, row)) is not None:
        error_object["upstream_code"] = upstream_code
    return {"error": error_object}


def _upstream_code(error: Exception, row: ErrorReply) -> str | None:
    """Returns the upstream's own error code, if it differs from the row's. Some upstreams send the status as code."""
    if not isinstance(error, upstream.UpstreamRejected) or row.fixed_message is not None:
        return None
    return code if (code := error.code) and code != row.code and _CODE_PATTERN.fullmatch(code) else None


def build_failed_event(error: Exception) -> Failed:
    """Returns the last event of a stream that had begun. It has the same message as the HTTP error."""
    row = resolve_error_reply(error)
    return Failed(row.code or row.type, choose_client_message(error), getattr(error, "param", None))


def read_error_headers(error: Exception) -> dict[str, str]:
    """Returns the headers of an HTTP error, such as `retry-after` and `www-authenticate`."""
    return dict(getattr(error, "headers", {}))
