"""The reply with the bytes of a file, in pieces as they are read."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.errors import GatewayError
from gateway.files.file_names import build_disposition
from gateway.http.error_forms import bind_failure
from gateway.http.guard import ClientDisconnected, DrainState, cut_off_client, guard_client
from gateway.http.middleware import BODY_SEND
from gateway.state.file_records import StoredFile

_log = structlog.get_logger(__name__)

_FIXED_HEADERS: Final[Sequence[tuple[bytes, bytes]]] = (
    # Never the type that the client uploaded: a page or a script would run on the gateway's own origin.
    (b"content-type", b"application/octet-stream"),
    (b"x-content-type-options", b"nosniff"),
)

_NO_BODY: Final = {"type": "http.response.body", "body": b"", "more_body": False}


class BlobReply(Response):
    """Sends the bytes of a file. `closing` is a stack of open resources, which is closed once the reply has ended.

    The file is read only as fast as the client receives. If reading fails, the body is cut off, so that the client does
    not take it for complete.
    """

    status_code = 200
    background = None

    def __init__(
        self, file: StoredFile, pieces: AsyncIterator[bytes], closing: AsyncExitStack, drain: DrainState
    ) -> None:
        self._pieces = pieces
        self._closing = closing
        self._drain = drain
        self.raw_headers = [
            *_FIXED_HEADERS,
            (b"content-length", b"%d" % file.size),
            (b"content-disposition", build_disposition(file.filename).encode("latin-1")),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send_body = scope.get(BODY_SEND, send)
        async with self._closing:
            try:
                with guard_client(scope, receive, self._drain):
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                    if scope["method"] != "HEAD":
                        async for piece in self._pieces:
                            await send_body({"type": "http.response.body", "body": piece, "more_body": True})
                    await send_body(_NO_BODY)
            except ClientDisconnected:
                _log.info("client_disconnected", started=True)
            except GatewayError as error:
                bind_failure(error)
                await cut_off_client(scope, receive)
