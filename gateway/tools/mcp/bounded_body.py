"""Bodies of replies of MCP servers: limited in size and in what they cost to read, and without notifications."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import httpx2
import structlog

from dataplane.sharing.work_pool import run_in_pool
from gateway.tools.mcp.answers import refuse_unread, weigh_message
from gateway.tools.mcp.errors import TOO_LARGE, McpFault, describe_too_large
from gateway.tools.mcp.event_frames import (
    NO_MESSAGE,
    EventFrame,
    EventFrameReader,
    MessageLine,
    count_line_ends,
    read_address,
    read_message,
    slice_piece,
    write_event_frame,
)
from gateway.tools.mcp.messages import PROGRESS, SUBSCRIBED, TOOLS_CHANGED
from gateway.tools.mcp.request_record import ReplyAborted, RequestRecord, current_record
from gateway.tools.mcp.server import MAX_DROPPED, MAX_DROPPED_BYTES, MAX_OWN_REQUESTS, MINUTE_S

_P = ParamSpec("_P")
_R = TypeVar("_R")

_log = structlog.get_logger(__name__)

CONNECTION_CLOSED: Final = "the connection closed before the answer; the call was not repeated"

_LARGE_BYTES: Final = 256 * 1024

_FLOOD: Final = 100
"""The number of dropped messages of one reply from which they are logged."""

_MAX_LINES: Final = 4 * MAX_DROPPED
"""The number of fields of all events, during one answer or in a minute: an event has four at most, unless its data has
several lines. Each of them takes a microsecond."""

_MAX_PIECES: Final = 4 * MAX_DROPPED
"""The number of pieces in which a body arrives, during one answer or in a minute. A server decides how long they are,
and each of them takes ten microseconds."""

_MAX_PASSED_BYTES: Final = 1024 * 1024 * 1024
"""The size of the messages that the library gets in a minute of a lasting connection. All answers of a server may come
over it."""

_TURN_STEPS: Final = 500
"""So many lines, pieces or KiB are read in a few milliseconds. Then others have their turn."""

_ENDPOINT: Final = b"endpoint"
_READ_EVENTS: Final = (b"", b"message")
"""The names of the events whose messages the library reads."""


async def run_for_size(size: int, function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
    """Calls a function that goes through `size` bytes: in a thread if they are many, else here."""
    # Escaped texts of a few megabytes take a tenth of a second, and so do all of that size without the compiled core.
    return await run_in_pool(function, *args, **named) if size > _LARGE_BYTES else function(*args, **named)


@dataclass(slots=True)
class ServerTraffic:
    """Counts what a server sends during one answer, or in a minute of a lasting connection.

    `requests` are those of the server, to each of which the library replies, and `messages` all others but answers that
    were awaited. `idle_bytes` are those of which the library gets nothing. `was_refused`: the last connection was ended
    here, because of what the server sent.
    """

    requests: int = 0
    messages: int = 0
    idle_bytes: int = 0
    passed_bytes: int = 0
    lines: int = 0
    pieces: int = 0
    began: float = field(default_factory=time.monotonic)
    was_refused: bool = False

    def begin_minute(self) -> None:
        """Forgets what was counted, if it is a minute old."""
        now = time.monotonic()
        if now - self.began >= MINUTE_S:
            self.requests = self.messages = self.idle_bytes = self.passed_bytes = self.lines = self.pieces = 0
            self.began = now

    def find_excess(self) -> str | None:
        """Returns what the server sent too much of; None if there is nothing."""
        limits = (
            (self.requests, MAX_OWN_REQUESTS, "requests"),
            (self.messages, MAX_DROPPED, "messages besides its answer"),
            (self.idle_bytes, MAX_DROPPED_BYTES, "bytes besides its answer"),
            (self.passed_bytes, _MAX_PASSED_BYTES, "bytes in a minute"),
            (self.lines, _MAX_LINES, "lines"),
            (self.pieces, _MAX_PIECES, "pieces of a reply"),
        )
        for count, limit, what in limits:
            if count > limit:
                return f"the server sent more than {limit} {what}"
        return None


_answers: Final[WeakKeyDictionary[RequestRecord, ServerTraffic]] = WeakKeyDictionary()
_lasting: Final[WeakKeyDictionary[RequestRecord, ServerTraffic]] = WeakKeyDictionary()
"""The traffic of each request, and of the lasting connection of each session."""


def _find_traffic(record: RequestRecord, *, is_lasting: bool) -> ServerTraffic:
    """Returns the counts of the request to which a reply belongs. The library resumes a stream that ends, so a server
    could send any number of them, each within its limits."""
    if is_lasting:  # its record is its own, and that of the session is the one of the running request
        return _lasting.setdefault(current_record.get() or record, ServerTraffic())
    return _answers.setdefault(record, ServerTraffic())


class BoundedBody(httpx2.AsyncByteStream):
    """The body of a reply. Reading it raises ReplyAborted if the reply is too large or breaks off.

    Notifications are removed from a stream of events, because a server may send any number of them. A change of the
    list of tools is reported to `report_change`, and progress to `report_progress`. `on_end` is called when the body
    ends.

    A stream that `is_lasting` ends with its connection, so that its limits are those of a minute. If its server exceeds
    them, it ends as if the server had ended it, because the library opens a stream again that ended, but not one that
    failed twice. The next one waits for the rest of the minute. Such a stream has the answers to several requests: one
    that is too heavy is refused by itself.
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
        self._traffic = _find_traffic(record, is_lasting=is_lasting)
        awaits = None if is_lasting else lambda: record.request_id
        weigh = partial(weigh_message, limits=record.limits)
        max_bytes = record.limits.max_bytes if is_lasting else None
        self._filter = (
            NotificationFilter(report_change, report_progress, awaits, weigh, self._traffic, max_bytes)
            if is_event_stream
            else None
        )
        self._is_lasting = is_lasting
        self._report_change = report_change
        self._on_end = on_end
        self._steps = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        messages = self._filter
        try:
            if messages is None:
                yield await self._read_whole()
                return
            if self._is_lasting:
                await self._wait_for_limits()
            async for piece in self._stream:
                self._count_piece()
                for part in slice_piece(piece):
                    passed, fault = await self._filter_part(messages, part)
                    if passed:
                        yield passed
                    if fault is not None:
                        raise fault
                    await self._leave_turn(part)
            if rest := messages.take_rest():
                yield rest
        except (McpFault, httpx2.TransportError, httpx2.StreamError) as error:
            self._record_end(error)
            if messages is not None and (rest := messages.take_rest()):
                yield rest
            if not (self._is_lasting and self._record.has_failed):
                raise ReplyAborted("the reply broke off") from error
        finally:
            if messages is not None and messages.dropped >= _FLOOD:
                _log.info("mcp_messages_dropped", count=messages.dropped)
            self._on_end()

    async def _wait_for_limits(self) -> None:
        """Waits for the end of the minute if the server has sent too much in it."""
        traffic = self._traffic
        if traffic.was_refused:
            traffic.was_refused = False
            self._report_change()  # the server could not report one in between
        traffic.begin_minute()
        while traffic.find_excess() is not None:
            await asyncio.sleep(max(0.0, traffic.began + MINUTE_S - time.monotonic()))
            traffic.begin_minute()

    async def _filter_part(
        self, messages: "NotificationFilter", part: bytes
    ) -> tuple[bytes, McpFault | ReplyAborted | None]:
        """Returns what the library gets of a part of the stream, and the fault that ends the stream behind it."""
        passed: list[bytes] = []

        def take(frame: bytes) -> None:
            self._check_traffic()
            if self._is_lasting:
                self._traffic.passed_bytes += len(frame)
            else:
                self._record.count_bytes(frame)
            passed.append(frame)

        fault: McpFault | ReplyAborted | None = None
        try:
            await messages.feed(part, take)
            if not self._is_lasting:
                self._record.check_bytes(messages.held_bytes)
            self._check_traffic()
        except (McpFault, ReplyAborted) as raised:
            fault = raised
        return b"".join(passed), fault

    async def _read_whole(self) -> bytes:
        """Returns a body that is one message, once it is complete."""
        body = bytearray()
        async for piece in self._stream:
            self._count_piece()
            self._record.count_bytes(piece)
            body += piece
            await self._leave_turn(piece)
        data = bytes(body)
        return await run_for_size(len(data), weigh_message, data, self._record.limits)

    async def _leave_turn(self, read: bytes) -> None:
        """Lets others have their turn after some steps. What has arrived is otherwise read without a pause: with short
        lines or pieces, a single read from the network takes more than a tenth of a second."""
        self._steps += 1 + count_line_ends(read) + len(read) // 1024
        if self._steps > _TURN_STEPS:
            self._steps = 0
            await asyncio.sleep(0)

    def _count_piece(self) -> None:
        if self._is_lasting:
            self._traffic.begin_minute()
        self._traffic.pieces += 1
        self._check_traffic()

    def _check_traffic(self) -> None:
        """Raises McpFault if the server sent too much besides its answer."""
        if (reason := self._traffic.find_excess()) is not None:
            raise McpFault("invalid_result", reason)

    def _record_end(self, error: Exception) -> None:
        """Records why the body ended too early. Its own limits also end the request."""
        if isinstance(error, McpFault):
            self._record.fail(error)
        elif not self._record.has_failed:
            self._record.fault = McpFault("connection_closed", CONNECTION_CLOSED)
        self._traffic.was_refused = self._record.has_failed

    async def aclose(self) -> None:
        await self._stream.aclose()


class NotificationFilter:
    """Removes notifications from an event stream that arrives in pieces, and reports some of them.

    It also removes answers to other requests than the one whose id `awaits` returns, and all frames in which the
    library would find nothing. What it removes is counted in `traffic`, and messages also in `dropped`. `weigh` gets
    each message before it is read, in a thread if it is large, and returns what the library reads.

    Without `awaits` the stream has the answers to several requests. One that is too heavy, or longer than `max_bytes`,
    is replaced by an error, which ends only its own request.

    The last id of removed events goes with the next one that passes, so that the stream can be resumed after it, and so
    does the time after which it may be. `take_rest` has them if none passes. What passes has line feeds as its only
    ends of lines, and is UTF-8: the library must not read another message than was examined here.
    """

    def __init__(
        self,
        report_change: Callable[[], None] = lambda: None,
        report_progress: Callable[[Any], None] = lambda _: None,
        awaits: Callable[[], Any] | None = None,
        weigh: Callable[[bytes], bytes] = lambda data: data,
        traffic: ServerTraffic | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._report_change = report_change
        self._report_progress = report_progress
        self._awaits = awaits
        self._weigh = weigh
        self._max_bytes = max_bytes
        self.traffic = ServerTraffic() if traffic is None else traffic
        self.dropped = 0
        self._reader = EventFrameReader()
        self._cuts_answer = False
        """Whether the frame that was cut last is an answer."""
        self._last_id: bytes | None = None
        self._retry_ms: int | None = None
        """What removed frames had, and the library has not got."""

    @property
    def held_bytes(self) -> int:
        """The size of the frame that has not ended."""
        return self._reader.held_bytes

    async def feed(self, piece: bytes, take: Callable[[bytes], None]) -> None:
        """Calls `take` with each frame that ends in this piece, as the library gets it. Raises what `weigh` raises, if
        that ends the whole stream."""
        lines, idle_bytes, cut_bytes = self._reader.lines, self._reader.idle_bytes, self._reader.cut_bytes
        frames = self._reader.feed(piece)
        self.traffic.lines += self._reader.lines - lines
        self.traffic.idle_bytes += self._reader.idle_bytes - idle_bytes
        self._count_unread(self._reader.cut_bytes - cut_bytes, is_answer=self._cuts_answer)
        for frame in frames:
            if passed := await self._filter_frame(frame):
                take(passed)
        if self._max_bytes is not None and (held := self.held_bytes) > self._max_bytes:
            fault = McpFault(TOO_LARGE, describe_too_large(self._max_bytes))
            refused = self._refuse(self._reader.cut_frame(), held, fault, is_whole=False)
            self._cuts_answer = bool(refused)
            if refused:
                take(refused)

    def take_rest(self) -> bytes:
        """Returns a frame with the id and the time that the library has not got; empty if it has."""
        return b"" if self._last_id is None and self._retry_ms is None else self._build_frame(b"")

    async def _filter_frame(self, frame: EventFrame) -> bytes:
        """Returns what the library gets of a frame."""
        self._last_id = self._last_id if frame.last_id is None else frame.last_id
        self._retry_ms = self._retry_ms if frame.retry_ms is None else frame.retry_ms
        try:
            read = await self._read_data(frame)
        except McpFault as fault:
            if self._awaits is not None:
                raise
            return self._refuse(b" ".join(frame.data), frame.size, fault, is_whole=True)
        passes = self._takes(frame.event, read)
        self._count(frame, read.message, passes=passes)
        return self._build_frame(read.line, is_endpoint=frame.event == _ENDPOINT) if passes else b""

    async def _read_data(self, frame: EventFrame) -> MessageLine:
        if not any(frame.data):
            return NO_MESSAGE
        if frame.event == _ENDPOINT:
            return read_address(frame.data)
        if self._max_bytes is not None and frame.size > self._max_bytes:
            raise McpFault(TOO_LARGE, describe_too_large(self._max_bytes))
        return await run_for_size(frame.size, read_message, frame.data, self._weigh)

    def _refuse(self, data: bytes, size: int, fault: McpFault, *, is_whole: bool) -> bytes:
        """Returns what the library gets in place of a message that is not read: an error if it is an answer, else
        nothing. Raises the fault if it is not known to which request it belongs."""
        self.traffic.messages += 1
        try:
            refusal = refuse_unread(data, fault, is_whole=is_whole)
        except McpFault:
            self._count_unread(size, is_answer=False)
            raise
        self._count_unread(size, is_answer=refusal is not None)
        if refusal is None:
            self.dropped += 1
            return b""
        return self._build_frame(refusal.message.model_dump_json(by_alias=True, exclude_none=True).encode())

    def _count_unread(self, size: int, *, is_answer: bool) -> None:
        """Counts bytes of a message that is not read. Those of an answer count as if it had passed: it is awaited."""
        if is_answer:
            self.traffic.passed_bytes += size
        else:
            self.traffic.idle_bytes += size

    def _takes(self, event: bytes, read: MessageLine) -> bool:
        """Returns whether the library gets an event. Reports some of the others."""
        if event == _ENDPOINT or not read.line:
            return bool(read.line)
        if read.message is None:
            # The library ends a call whose answer it cannot read. On a lasting stream it does nothing, in a task each.
            return event in _READ_EVENTS and self._awaits is not None
        return self._passes(read.message) and event in _READ_EVENTS

    def _count(self, frame: EventFrame, message: dict[str, Any] | None, *, passes: bool) -> None:
        traffic = self.traffic
        if message is None or not passes:
            self.dropped += message is not None
            traffic.messages += 1
            traffic.idle_bytes += frame.size
        elif "method" in message:
            traffic.requests += 1
        elif self._awaits is None:
            traffic.messages += 1  # an answer on a lasting stream, which nobody may await

    def _build_frame(self, data: bytes, *, is_endpoint: bool = False) -> bytes:
        # An id holds for later events without one too, so that of a removed event may go with the next one that passes.
        event = _ENDPOINT if is_endpoint else b""
        frame = write_event_frame(data, event=event, last_id=self._last_id, retry_ms=self._retry_ms)
        self._last_id = self._retry_ms = None
        return frame

    def _passes(self, message: dict[str, Any]) -> bool:
        """Returns whether the library gets a message. Reports changes of the list of tools, and progress."""
        if "method" not in message:
            # The library takes any answer on the stream of a request as the answer to that request.
            awaited = None if self._awaits is None else self._awaits()
            answered = message["id"]
            if answered is None and "error" in message:
                return True  # the server could not read the request, or its id
            return awaited is None or (isinstance(answered, str | int) and str(answered) == str(awaited))
        if "id" in message:
            return True
        method = message["method"]
        if method == TOOLS_CHANGED:
            self._report_change()
        elif method == PROGRESS:
            self._report_progress(message.get("params"))
        return bool(method == SUBSCRIBED)
