"""Builds the replies to request heads over a limit, which are refused before there is a request."""

import structlog

from dataplane.bounded_protocol import HeadFailure, HeadLimits, HeadRefusal
from gateway.error_replies import build_openai_error_body, resolve_error_reply
from gateway.errors import GatewayError, HeadTooLarge, HeadTooSlow, TargetTooLong
from gateway.http.json_reply import build_json_reply
from gateway.http.middleware import new_request_id

_log = structlog.get_logger(__name__)


def refuse_head(failure: HeadFailure, limits: HeadLimits) -> HeadRefusal:
    """Returns the reply to a refused head, and writes a log line about it."""
    error = _build_error(failure, limits)
    row = resolve_error_reply(error)
    request_id = new_request_id()
    _log.info("head_refused", request_id=request_id, status=row.status, error=row.code)
    reply = build_json_reply(build_openai_error_body(error), row.status)
    headers = [header for header in reply.raw_headers if header[0] != b"content-length"]
    return row.status, [*headers, (b"x-request-id", request_id.encode())], reply.body


def _build_error(failure: HeadFailure, limits: HeadLimits) -> GatewayError:
    kilobytes = f"{limits.max_bytes / 1024:g} KiB (server.max_head_kb)"
    match failure:
        case HeadFailure.TARGET_TOO_LONG:
            return TargetTooLong(f"the path and query of the request are longer than {kilobytes}")
        case HeadFailure.TOO_MANY_FIELDS:
            return HeadTooLarge(f"the request has more than {limits.max_fields} headers (server.max_head_fields)")
        case HeadFailure.TOO_SLOW:
            return HeadTooSlow(f"the head of the request did not arrive within {limits.max_s:g} s (server.head_s)")
        case HeadFailure.TOO_LARGE:
            return HeadTooLarge(f"the head of the request is larger than {kilobytes}")
