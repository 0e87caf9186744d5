"""Builds JSON replies for requests without `stream`, and for errors."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response
from starlette.types import Scope, Send

from gateway.http.dialect_errors.rendering import render_error
from gateway.http.headers import encode_headers
from gateway.http.middleware import ReplySender
from gateway.logs import bind_failure
from translation.representation.json_types import Json


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
        ]
        if headers:
            self.raw_headers += encode_headers(headers)

    def try_send(self, send: Send) -> bool:
        """Sends the reply in one write, without a coroutine. Returns False if nothing was sent.

        Works only for status 200 and a `send` that is this server's own ReplySender.
        """
        return (
            self.status_code == 200 and isinstance(send, ReplySender) and send.send_reply(self.raw_headers, self.body)
        )


def build_json_reply(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> JsonReply:
    return JsonReply(orjson.dumps(body), status, headers or {})


def build_error_reply(error: Exception, scope: Scope | None = None) -> Response:
    """Returns the HTTP reply for a failure by its row in `gateway/error_replies.py`, and adds its code to the log line.

    `scope` is the scope of the request, whose API decides the form of the body.
    """
    bind_failure(error)
    body, status, headers = render_error(error, scope)
    return build_json_reply(body, status, headers)
