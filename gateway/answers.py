"""Whole JSON replies."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway import errors
from gateway.edge import Sending
from gateway.logs import note_failure
from gateway.raw_headers import raw_headers
from translation.json_types import Json


class _JsonAnswer(Response):
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
            self.raw_headers += raw_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.status_code == 200 and isinstance(send, Sending) and send.answer(self.raw_headers, self.body):
            return
        await super().__call__(scope, receive, send)


def json_answer(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return _JsonAnswer(orjson.dumps(body), status, headers or {})


def error_answer(error: Exception) -> Response:
    """The one place a failure becomes an HTTP reply."""
    note_failure(error)
    return json_answer(errors.as_body(error), errors.answer(error).status, errors.headers(error))
