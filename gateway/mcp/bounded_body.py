"""Replies of MCP servers while they are read: bounded in bytes, and without notifications."""

import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Final, Literal

import httpx2
import orjson

from gateway.mcp.errors import McpFault
from gateway.mcp.request_record import ReplyCut, RequestRecord
from gateway.mcp.server import MAX_OWN_REQUESTS, MINUTE_S

CONNECTION_CLOSED: Final = "the connection closed before the answer; the call was not repeated"

_CHANGED: Final = b'"notifications/tools/list_changed"'
_ACKNOWLEDGED: Final = b'"notifications/subscriptions/acknowledged"'
"""The only notifications that mean something here: the second one ends the wait for a subscription."""

_FRAME_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_FRAME_END_CHARS: Final = 4
_ID_LINE: Final = re.compile(rb"^id:[^\r\n]*", re.MULTILINE)
_DATA_LINE: Final = re.compile(rb"^data: ?([^\r\n]*)", re.MULTILINE)


class BoundedBody(httpx2.AsyncByteStream):
    """The body of a reply. It ends in ReplyCut where the reply is too large or breaks off.

    A stream of events loses its notifications here: nothing waits for them, and a server may send any number. Those
    that say that the list of tools changed are reported by `report_change`. A stream that `is_lasting` ends with its
    connection, so only single events and the rate of requests are bounded. `on_end` is called when the body ends.
    """

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        record: RequestRecord,
        *,
        is_event_stream: bool,
        is_lasting: bool = False,
        report_change: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream = stream
        self._record = record
        self._filter = NotificationFilter(report_change) if is_event_stream else None
        self._is_lasting = is_lasting
        self._minute_began = time.monotonic()
        self._on_end = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                passed = piece if self._filter is None else self._filter.feed(piece)
                if self._is_lasting:
                    self._begin_minute()
                else:
                    self._record.count_bytes(len(passed))
                if self._filter is not None:
                    self._record.check_bytes(self._filter.held_bytes)
                    self._check_requests(self._filter.requests)
                if passed:
                    yield passed
        except (httpx2.TransportError, httpx2.StreamError) as error:
            if not self._record.has_failed:
                self._record.fault = McpFault("connection_closed", CONNECTION_CLOSED)
            raise ReplyCut("the reply broke off") from error
        finally:
            self._on_end()

    def _begin_minute(self) -> None:
        now = time.monotonic()
        if self._filter is not None and now - self._minute_began > MINUTE_S:
            self._minute_began, self._filter.requests = now, 0

    def _check_requests(self, count: int) -> None:
        """Raises ReplyCut for a server that asks too much: the library answers each request by one of its own."""
        if count > MAX_OWN_REQUESTS:
            self._record.fail(McpFault("invalid_result", f"the server sent more than {MAX_OWN_REQUESTS} requests"))
            raise ReplyCut("the server asks too much")

    async def aclose(self) -> None:
        await self._stream.aclose()


class NotificationFilter:
    """Takes an event stream in pieces, and returns it without notifications.

    `requests` is the number of the requests of the server, which are passed on.

    The id of an event that is left out stays, without data, so that a stream can be resumed after it.
    """

    def __init__(self, report_change: Callable[[], None] = lambda: None) -> None:
        self._report_change = report_change
        self.requests = 0
        self._held = bytearray()

    @property
    def held_bytes(self) -> int:
        """The size of the frame that has not ended."""
        return len(self._held)

    def feed(self, piece: bytes) -> bytes:
        """Returns the frames that end in this piece and are to be passed on."""
        searched = max(0, len(self._held) - _FRAME_END_CHARS)
        self._held += piece
        passed: list[bytes] = []
        last_id: bytes | None = None
        start = 0
        while end := _FRAME_END.search(self._held, searched):
            frame = bytes(self._held[start : end.end()])
            start = searched = end.end()
            kind = kind_of(frame)
            if kind == "notification" and _CHANGED in frame:
                self._report_change()
            if kind == "notification" and _ACKNOWLEDGED not in frame:
                last_id = id_line[0] if (id_line := _ID_LINE.search(frame)) else last_id
            else:
                self.requests += kind == "request"
                passed.append(frame)
                last_id = None
        del self._held[:start]
        if last_id is not None:
            passed.append(last_id + b"\ndata:\n\n")
        return b"".join(passed)


def kind_of(frame: bytes) -> Literal["notification", "request", "other"]:
    """Returns what the message in a frame of an event stream is, if it has one."""
    if b'"method"' not in frame:
        return "other"
    try:
        message = orjson.loads(b"\n".join(_DATA_LINE.findall(frame)))
    except orjson.JSONDecodeError:
        return "other"
    if not isinstance(message, dict) or "method" not in message:
        return "other"
    return "request" if "id" in message else "notification"
