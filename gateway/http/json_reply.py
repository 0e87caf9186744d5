"""Whole JSON replies."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response
from starlette.types import Send

from gateway import errors
from gateway.http.headers import raw_headers
from gateway.http.middleware import Sending
from gateway.logs import note_failure
from translation.representation.json_types import Json


class JsonAnswer(Response):
    """One that is whole."""

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

    def sent_at_once(self, send: Send) -> bool:
        """Send it in one write, without a coroutine. False: nothing was sent."""
        return self.status_code == 200 and isinstance(send, Sending) and send.answer(self.raw_headers, self.body)


def json_answer(body: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> JsonAnswer:
    return JsonAnswer(orjson.dumps(body), status, headers or {})


def error_answer(error: Exception) -> Response:
    """The one place a failure becomes an HTTP reply."""
    note_failure(error)
    return json_answer(errors.as_body(error), errors.answer(error).status, errors.headers(error))
