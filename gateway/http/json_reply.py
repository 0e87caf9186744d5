"""Builds JSON replies, also to requests whose head is refused."""

from collections.abc import Mapping

import structlog
from starlette.responses import Response
from starlette.types import Send

from dataplane.bounded_protocol import HeadFailure, HeadLimits, HeadRefusal
from gateway.error_replies import build_openai_error_body, resolve_error_reply
from gateway.errors import GatewayError, HeadMalformed, HeadTooLarge, HeadTooSlow, TargetTooLong
from gateway.http.headers import encode_headers
from gateway.http.middleware import ReplySender, new_request_id
from translation.representation.json_types import Json
from translation.representation.shared_tools import write_json

_log = structlog.get_logger(__name__)


class JsonReply(Response):
    """A complete reply with a JSON body of known length."""

    body: bytes

    def __init__(self, body: bytes, status: int, headers: Mapping[str, str]) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
            *encode_headers(headers),
        ]

    def try_send(self, send: Send) -> bool:
        """Sends the reply in one write, without a coroutine. Returns False if nothing was sent.

        Works only for status 200 and a `send` that is this server's own ReplySender.
        """
        return (
            self.status_code == 200 and isinstance(send, ReplySender) and send.send_reply(self.raw_headers, self.body)
        )


def build_json_reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> JsonReply:
    return JsonReply(write_json(body), status, headers or {})


def refuse_head(failure: HeadFailure, limits: HeadLimits) -> HeadRefusal:
    """Returns the reply to a head that is refused before there is a request, and writes a log line about it."""
    error = _build_head_error(failure, limits)
    row = resolve_error_reply(error)
    request_id = new_request_id()
    _log.info("head_refused", request_id=request_id, status=row.status, error=row.code)
    reply = build_json_reply(build_openai_error_body(error), row.status)
    headers = [header for header in reply.raw_headers if header[0] != b"content-length"]
    return row.status, [*headers, (b"x-request-id", request_id.encode())], reply.body


def _build_head_error(failure: HeadFailure, limits: HeadLimits) -> GatewayError:
    kilobytes = f"{limits.max_bytes / 1024:g} KiB (server.max_head_kb)"
    match failure:
        case HeadFailure.MALFORMED:
            return HeadMalformed("this is no request of HTTP/1.1: see its first line, its headers and its length")
        case HeadFailure.HOST:
            return HeadMalformed("a request needs exactly one header `Host`")
        case HeadFailure.HANDSHAKE:
            return HeadMalformed(
                "a WebSocket needs one header `Sec-WebSocket-Version: 13` and one `Sec-WebSocket-Key` of 16 bytes"
            )
        case HeadFailure.TARGET_TOO_LONG:
            return TargetTooLong(f"the path and query of the request are longer than {kilobytes}")
        case HeadFailure.TOO_MANY_FIELDS:
            return HeadTooLarge(f"the request has more than {limits.max_fields} headers (server.max_head_fields)")
        case HeadFailure.TOO_SLOW:
            return HeadTooSlow(f"the head of the request did not arrive within {limits.max_s:g} s (server.head_s)")
        case HeadFailure.TOO_LARGE:
            return HeadTooLarge(f"the head of the request is larger than {kilobytes}")
