"""Builds JSON replies."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response
from starlette.types import Send

from gateway.http.headers import encode_headers
from gateway.http.middleware import ReplySender
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
