"""Bodies of replies of MCP servers: limited in size, and without notifications."""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import httpx2
import orjson
import structlog

from dataplane.sharing.work_pool import run_in_pool
from gateway.tools.mcp.answers import weigh_message
from gateway.tools.mcp.errors import McpFault
from gateway.tools.mcp.messages import PROGRESS, SUBSCRIBED, TOOLS_CHANGED
from gateway.tools.mcp.request_record import ReplyAborted, RequestRecord
from gateway.tools.mcp.server import MAX_DROPPED, MAX_DROPPED_BYTES, MAX_OWN_REQUESTS, MINUTE_S

_log = structlog.get_logger(__name__)

CONNECTION_CLOSED: Final = "the connection closed before the answer; the call was not repeated"

_LARGE_BYTES: Final = 256 * 1024

_FLOOD: Final = 100
"""The number of dropped messages of one reply from which they are logged."""

_FRAME_END: Final = b"\n\n"
_ID_LINE: Final = re.compile(rb"^id:[^\n]*", re.MULTILINE)
_DATA_LINE: Final = re.compile(rb"^data(?:: ?([^\n]*))?$", re.MULTILINE)
_OTHER_LINE: Final = re.compile(rb"^(?:id|event):[^\n]*", re.MULTILINE)


class BoundedBody(httpx2.AsyncByteStream):
    """The body of a reply. Reading it raises ReplyAborted if the reply is too large or breaks off.

    Notifications are removed from a stream of events, because a server may send any number of them. A change of the
    list of tools is reported to `report_change`, and progress to `report_progress`. A stream that `is_lasting` ends
    with its connection, so only the size of single events and the rate of requests are limited. `on_end` is called when
    the body ends.
    """

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        record: RequestRecord,
        *,
        is_event_stream: bool,
        is_lasting: bool = False,
        report_change: Callable[[], None] = lambda: None,
        report_progress: Callable[[Any], None] = lambda _: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream = stream
        self._record = record
        awaits = None if is_lasting else lambda: record.request_id
        self._filter = (
            NotificationFilter(report_change, report_progress, awaits, self._weigh) if is_event_stream else None
        )
        self._is_lasting = is_lasting
        self._minute_began = time.monotonic()
        self._on_end = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            if self._filter is None:
                yield await self._read_whole()
                return
            async for piece in self._stream:
                passed = self._filter.feed(piece)
                if self._is_lasting:
                    self._begin_minute(self._filter)
                else:
                    self._record.count_bytes(passed)
                self._record.check_bytes(self._filter.held_bytes)
                self._check_flood(self._filter)
                if passed:
                    yield passed
        except (httpx2.TransportError, httpx2.StreamError) as error:
            if not self._record.has_failed:
                self._record.fault = McpFault("connection_closed", CONNECTION_CLOSED)
            raise ReplyAborted("the reply broke off") from error
        finally:
            if self._filter is not None and self._filter.dropped >= _FLOOD:
                _log.info("mcp_messages_dropped", count=self._filter.dropped)
            self._on_end()

    async def _read_whole(self) -> bytes:
        """Returns a body that is one message, once it is complete."""
        body = bytearray()
        async for piece in self._stream:
            self._record.count_bytes(piece)
            body += piece
        data, limits = bytes(body), self._record.limits
        with self._recorded_refusal():
            # Without the compiled core, a message of megabytes takes a tenth of a second.
            if len(data) > _LARGE_BYTES:
                return await run_in_pool(weigh_message, data, limits)
            return weigh_message(data, limits)

    def _weigh(self, data: bytes) -> bytes:
        """Returns a message for the library. Raises ReplyAborted for one that is too heavy."""
        with self._recorded_refusal():
            return weigh_message(data, self._record.limits)

    @contextmanager
    def _recorded_refusal(self) -> Iterator[None]:
        """Raises ReplyAborted for a message that is too heavy, after the request has failed."""
        try:
            yield
        except McpFault as fault:
            self._record.fail(fault)
            raise ReplyAborted(str(fault)) from None

    def _begin_minute(self, messages: "NotificationFilter") -> None:
        now = time.monotonic()
        if now - self._minute_began > MINUTE_S:
            self._minute_began = now
            messages.requests = messages.idle = messages.dropped_bytes = 0

    def _check_flood(self, messages: "NotificationFilter") -> None:
        """Raises ReplyAborted if the server sent too many requests, each of which the library answers by a request of
        its own, or too many messages that nothing reads."""
        if messages.requests > MAX_OWN_REQUESTS:
            self._fail(f"the server sent more than {MAX_OWN_REQUESTS} requests")
        if messages.idle > MAX_DROPPED:
            self._fail(f"the server sent more than {MAX_DROPPED} messages besides its answer")
        if messages.dropped_bytes > MAX_DROPPED_BYTES:
            self._fail(f"the server sent more than {MAX_DROPPED_BYTES} bytes besides its answer")

    def _fail(self, reason: str) -> NoReturn:
        self._record.fail(McpFault("invalid_result", reason))
        raise ReplyAborted(reason)

    async def aclose(self) -> None:
        await self._stream.aclose()


class NotificationFilter:
    """Removes notifications from an event stream that arrives in pieces, and reports some of them.

    It also removes answers to other requests than the one whose id `awaits` returns. `dropped` counts the removed
    messages, `idle` these and frames without a message, and `requests` the requests of the server, which remain.
    `weigh` gets each message before it is read, and returns what the library reads.

    The id of a removed event remains, without data, so that the stream can be resumed after it. What passes has line
    feeds as its only ends of lines, and is UTF-8: the library must not read another message than was examined here.
    """

    def __init__(
        self,
        report_change: Callable[[], None] = lambda: None,
        report_progress: Callable[[Any], None] = lambda _: None,
        awaits: Callable[[], Any] | None = None,
        weigh: Callable[[bytes], bytes] = lambda data: data,
    ) -> None:
        self._report_change = report_change
        self._report_progress = report_progress
        self._awaits = awaits
        self._weigh = weigh
        self.dropped = 0
        self.dropped_bytes = 0
        self.idle = 0
        self.requests = 0
        self._held = bytearray()
        self._after_return = False
        """Whether the last byte was a carriage return, which ends a line with or without a line feed behind it."""

    @property
    def held_bytes(self) -> int:
        """The size of the frame that has not ended."""
        return len(self._held)

    def feed(self, piece: bytes) -> bytes:
        """Returns the frames that end in this piece, without removed ones."""
        searched = max(0, len(self._held) - 1)
        self._held += self._unify_line_ends(piece)
        passed: list[bytes] = []
        last_id: bytes | None = None
        start = 0
        while (end := self._held.find(_FRAME_END, searched)) >= 0:
            frame = _replace_no_unicode(bytes(self._held[start : end + 2]))
            start = searched = end + 2
            data = b"\n".join(_DATA_LINE.findall(frame))
            if (weighed := self._weigh(data) if data else data) != data:
                frame = b"\n".join([*_OTHER_LINE.findall(frame), b"data: " + weighed, b"", b""])
            message = _read_message(weighed)
            self.idle += message is None
            if message is not None and not self._passes(message):
                self.dropped += 1
                self.idle += 1
                self.dropped_bytes += len(frame)
                last_id = id_line[0] if (id_line := _ID_LINE.search(frame)) else last_id
            else:
                self.requests += message is not None and "method" in message and "id" in message
                passed.append(frame)
                last_id = None
        del self._held[:start]
        if last_id is not None:
            passed.append(last_id + b"\ndata:\n\n")
        return b"".join(passed)

    def _unify_line_ends(self, piece: bytes) -> bytes:
        """Returns a piece with line feeds as its only ends of lines.

        https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
        """
        if not piece:
            return piece
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _passes(self, message: dict[str, Any]) -> bool:
        """Returns whether the library gets a message. Reports changes of the list of tools, and progress."""
        if "method" not in message:
            # The library takes any answer on the stream of a request as the answer to that request.
            awaited = None if self._awaits is None else self._awaits()
            return awaited is None or str(message.get("id")) == str(awaited)
        if "id" in message:
            return True
        method = message["method"]
        if method == TOOLS_CHANGED:
            self._report_change()
        elif method == PROGRESS:
            self._report_progress(message.get("params"))
        return bool(method == SUBSCRIBED)


def _replace_no_unicode(frame: bytes) -> bytes:
    """Returns a frame as UTF-8, with U+FFFD for everything else, as the library reads it."""
    try:
        frame.decode()
    except UnicodeDecodeError:
        return frame.decode(errors="replace").encode()
    return frame


def _read_message(data: bytes) -> dict[str, Any] | None:
    """Returns the message of an event; None if it has none that can be read."""
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return message if isinstance(message, dict) and ("method" in message or "id" in message) else None
