"""The reply of a relayed path: the upstream's bytes, with its media type."""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

import orjson
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.error_replies import build_openai_error_body
from gateway.errors import GatewayError
from gateway.http.error_forms import bind_failure
from gateway.http.guard import ClientDisconnected, DrainState, cut_off_client, guard_client
from gateway.http.middleware import BODY_SEND
from gateway.relayed_paths.reply_usage import ReplyUsage
from gateway.replies.event_stream import UNBUFFERED_HEADERS
from gateway.replies.observers import ReplyEnd, RequestObserver
from providers.errors import ProviderError
from providers.relayed_paths import ReplyBytes

_log = structlog.get_logger(__name__)

EVENT_STREAM = "text/event-stream"


class EndReply(Protocol):
    """Ends the attempt behind a reply. If it neither is complete nor has failed, its client has left."""

    def __call__(self, *, is_complete: bool, has_failed: bool) -> None: ...


class AttemptWatchers(NamedTuple):
    """Who learns how the attempt behind a reply ended."""

    observer: RequestObserver
    end_turn: EndReply | None
    """Ends the turn of the attempt; None if it is not shared."""


class ByteReply(Response):
    """Sends the `head` of a body that was read to examine it, and then the `rest` as it arrives.

    A slow client slows the upstream down. If the client leaves, the upstream's connection is closed. A failure ends an
    event stream with an error event, and cuts any other body off, so that the client does not take it for complete.
    `hold` is kept alive until the reply has ended. The log line gets the token counts of JSON and of event streams.
    """

    status_code = 200
    background = None

    def __init__(
        self,
        reply: ReplyBytes,
        head: bytes,
        rest: AsyncIterator[bytes],
        drain: DrainState,
        hold: object,
        end: AttemptWatchers,
        *,
        is_json: bool,
    ) -> None:
        self._reply = reply
        self._head = head
        self._rest = rest
        self._drain = drain
        self._hold = hold
        self._is_event_stream = reply.content_type == EVENT_STREAM
        self._is_json = is_json
        self._end = end
        header = reply.content_type_header or "application/octet-stream"
        self.raw_headers = [(b"content-type", header.encode("latin-1"))]
        if reply.content_length is not None:
            self.raw_headers.append((b"content-length", b"%d" % reply.content_length))
        if self._is_event_stream:
            self.raw_headers += UNBUFFERED_HEADERS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        send_body = scope.get(BODY_SEND, send)
        is_complete = has_failed = has_content = False
        usage = ReplyUsage(self._head) if self._is_event_stream or self._is_json else None
        observer, end_turn = self._end
        try:
            try:
                with guard_client(scope, receive, self._drain):
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                    if self._head:
                        if self._is_event_stream:
                            has_content = True
                            observer.observe_content()
                        await send_body({"type": "http.response.body", "body": self._head, "more_body": True})
                    async for read in self._rest:
                        if not has_content:
                            has_content = True
                            observer.observe_content()
                        if usage is not None:
                            usage.feed(read)
                        await send_body({"type": "http.response.body", "body": read, "more_body": True})
                    is_complete = True
                    await send_body({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                observer.observe_end(ReplyEnd(usage.find() if usage is not None and is_complete else None))
        except ClientDisconnected:
            _log.info("client_disconnected", started=True)
        except (GatewayError, ProviderError) as error:
            bind_failure(error)
            has_failed = isinstance(error, ProviderError)
            # Status 200 has been sent. A stream ends with an event; any other body is cut off, to look incomplete.
            if self._is_event_stream:
                # The upstream may have broken off in the middle of a frame, which the empty line ends.
                event = b"\n\ndata: " + orjson.dumps(build_openai_error_body(error)) + b"\n\n"
                await send_body({"type": "http.response.body", "body": event, "more_body": False})
            else:
                await cut_off_client(scope, receive)
        finally:
            try:
                await self._reply.close()
            finally:
                if end_turn is not None:
                    end_turn(is_complete=is_complete, has_failed=has_failed)
