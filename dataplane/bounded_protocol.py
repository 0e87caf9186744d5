"""uvicorn's HTTP protocol with limits on request heads, and on how long a connection may be idle.

It knows no routes: `refuse_head` builds the reply to a head over a limit.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dataplane.client_watches import UnreadWatch
from dataplane.read_waiter import TIMER_STEP_S

_LATE_BODY_S = 60.0
"""Seconds in which the rest of a request's body may arrive after its reply was sent."""

_LINGER_S = 1.0
_LINGER_BYTES = 4 * 1024 * 1024
"""The seconds and bytes for which input is read and dropped after a refusal.

Closing a connection on which the client still sends resets it, and the client loses the reply.
"""

_UPGRADE_HEADERS = frozenset({b"upgrade", b"http2-settings"})
"""Headers of an upgrade. `Connection` lists them too."""


_WEBSOCKET_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
"""Sixteen bytes in base64."""


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """The most bytes and header fields of a request head, and the seconds in which it must arrive.

    The seconds count from its first byte; on a new connection, from the connection.
    """

    max_bytes: int = 64 * 1024
    max_fields: int = 100
    max_s: float = 10.0


class HeadFailure(Enum):
    """What is wrong with a request head: the rule that it breaks, or the limit that it exceeds."""

    MALFORMED = "syntax"
    HOST = "host"
    HANDSHAKE = "handshake"
    TARGET_TOO_LONG = "target"
    TOO_LARGE = "bytes"
    TOO_MANY_FIELDS = "fields"
    TOO_SLOW = "time"


_STATUSES: Final[Mapping[HeadFailure, int]] = {
    HeadFailure.MALFORMED: 400,
    HeadFailure.HOST: 400,
    HeadFailure.HANDSHAKE: 400,
    HeadFailure.TARGET_TOO_LONG: 414,
    HeadFailure.TOO_SLOW: 408,
}

HEADERS: Final = "gateway.headers"
"""The key of a request's headers by lower-case name in its ASGI scope. Of several with one name it has the first."""

_LAST_READ_S: Final = 0.02
"""Seconds in which an event loop that was busy reads what clients have sent."""

_FIRST_READ_S: Final = 1
"""The least seconds in which the first request may arrive on a new connection to a server that stops."""

HeadRefusal: TypeAlias = tuple[int, Sequence[tuple[bytes, bytes]], bytes]
"""The status, the headers and the body of the reply to a refused head."""


class _HeadRefused(Exception):
    """Stops the parser at the field that exceeds a limit."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Refuses request heads over `limits`, and closes connections that stay idle.

    A connection has one timer for all its waits: for the first request, for the rest of a head, for the next request.
    It checks how long the current wait lasts, and schedules itself again. To set and cancel a timer around each request
    would cost more than the check.
    """

    limits: ClassVar[HeadLimits] = HeadLimits()
    unread_s: ClassVar[float] = 120.0
    """Seconds for which a client may read nothing of what waits for it."""

    # With more than thirty attributes in its dict, an object would look up all of them slowly, and its methods too.
    __slots__ = (
        "_failure",
        "_head_since",
        "_idle_since",
        "_in_head",
        "_overdue_since",
        "_replied_at",
        "_timer",
        "_timer_due",
        "_unparsed_bytes",
        "_unread",
    )

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._in_head = False
        self._unparsed_bytes = 0
        """The bytes of the reads since the last complete head or piece of a body. Heads, trailers, chunk extensions and
        empty lines before a request all count."""
        self._failure: HeadFailure | None = None
        self._head_since: float | None = None
        """The loop time since which a head is awaited: the time of its first byte, or of the new connection."""
        self._idle_since: float | None = None
        """The loop time when the last reply ended; None if a request has begun since."""
        self._replied_at = 0.0
        self._overdue_since: float | None = None
        """The beginning of the wait that was too long when it was checked last."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._unread: UnreadWatch | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if connection := transport.get_extra_info("socket"):
            self.on_connection(connection.fileno())
        self._head_since = self.loop.time()
        self._check_within(self.limits.max_s)

    def data_received(self, data: bytes) -> None:
        # uvicorn's method, without a call for a timer that is not used here.
        self._unparsed_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._on_parser_failure()
            return
        except httptools.HttpParserUpgrade as upgrade:
            if self._should_upgrade():
                if self._has_handshake():
                    self.handle_websocket_upgrade()
                else:
                    self._refuse(HeadFailure.HANDSHAKE)
            elif self._has_other_upgrade():
                self._parse_without_upgrade(data[upgrade.args[0] :])
            return  # nothing follows the head of a `CONNECT`
        if (
            self._in_head or self._unparsed_bytes
        ):  # a head that begins in the read of a body has no bytes of its own yet
            self._check_unfinished()

    def _check_unfinished(self) -> None:
        """Refuses a head that is not complete and exceeds a limit already, or too much between heads and bodies."""
        limits = self.limits
        if self._in_head:
            if self._head_since is None:
                self._head_since = self.loop.time()
                self._check_within(limits.max_s)
            if len(self.headers) > limits.max_fields and self._failure is None:
                self._refuse(HeadFailure.TOO_MANY_FIELDS)
                return
        if self._unparsed_bytes > limits.max_bytes and self._failure is None:
            self._refuse(self._find_size_failure() or HeadFailure.TOO_LARGE)

    def on_connection(self, descriptor: int) -> None:
        """Does nothing. `limit_clients` may replace it. Called with the descriptor of a new connection."""

    def on_stall(self, unread_bytes: int) -> None:
        """Does nothing. `limit_clients` may replace it. Called before a client is cut off that reads nothing."""

    def refuse_head(self, failure: HeadFailure) -> HeadRefusal:
        """Builds the reply to a refused head, without a body. `limit_clients` may replace this method."""
        status = _STATUSES.get(failure, 431)
        return status, (), b""

    def _on_parser_failure(self) -> None:
        """Refuses what is no request. Whole requests before it are answered first, and then the connection ends.

        What a client declared too short a length for, or none, follows its request, and would cost it its reply.
        """
        cycle = self.cycle
        is_flood = self._unparsed_bytes > _LINGER_BYTES
        if self._in_head and self._is_replying() and not cycle.response_started and not is_flood:
            self._failure = self._failure or HeadFailure.MALFORMED
            cycle.keep_alive = False
            return  # the parser takes nothing more
        self._refuse(self._failure or HeadFailure.MALFORMED)

    def _should_upgrade(self) -> bool:
        # Only a GET without a body begins a WebSocket (RFC 6455, section 4.1). uvicorn hands over other requests too,
        # but a WebSocket server cannot parse them, and their clients get no reply.
        return bool(self.parser.get_method() == b"GET" and super()._should_upgrade() and not self._announces_body())

    def _has_handshake(self) -> bool:
        """Whether the head has the version and the key of a WebSocket (RFC 6455, section 4.1).

        The server of WebSockets would refuse others with a text of its own, which no log line tells of.
        """
        versions = [value for name, value in self.headers if name == b"sec-websocket-version"]
        keys = [value for name, value in self.headers if name == b"sec-websocket-key"]
        return versions == [b"13"] and len(keys) == 1 and _WEBSOCKET_KEY.fullmatch(keys[0]) is not None

    def _announces_body(self) -> bool:
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.headers
        )

    def _get_upgrade(self) -> bytes | None:
        # uvicorn's reads the last `Connection` only. The parser reads all of them, and does not read the body of a
        # request that it takes for an upgrade.
        if not self.parser.should_upgrade():
            return None
        return next((value.lower() for name, value in reversed(self.headers) if name == b"upgrade"), None)

    def _has_other_upgrade(self) -> bool:
        """Whether the present head has an `Upgrade` that the server does not follow."""
        return self._get_upgrade() is not None and not self._should_upgrade()

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Parses the present head again, without its `Upgrade`, and then the `rest`: its body and what follows it.

        A server may ignore an upgrade (RFC 9110, section 7.8). Clients of the JVM send one to HTTP/2 with each request
        (`h2c`). The parser stops at any upgrade, and does not read a body of such a request.
        """
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                options = [option for option in value.split(b",") if option.strip().lower() not in _UPGRADE_HEADERS]
                lines.append(b"connection: %b" % b",".join(options))
            elif name not in _UPGRADE_HEADERS:
                lines.append(b"%b: %b" % (name, value))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    def on_message_begin(self) -> None:
        HttpToolsProtocol.on_message_begin(self)  # without the object that `super()` makes
        self._in_head = True
        self._idle_since = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # this is a trailer, which RFC 9110, section 6.5.1, forbids to merge into the headers
        # The rest is uvicorn's, without its search for `Expect`, which `_end_head` does once for all fields.
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        cycle = self.cycle
        if cycle.response_complete:
            if self._idle_since is not None:
                self._idle_since = min(self.loop.time(), self._replied_at + _LATE_BODY_S)
            return
        # The rest is uvicorn's, without its question for an upgrade, which has no body.
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        # uvicorn's, which would end a request at the head of an upgrade that is not taken.
        if (self.parser.should_upgrade() and self._get_upgrade() is not None) or self.cycle.response_complete:
            return
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def _end_head(self) -> None:
        """Ends the wait for a head. `on_headers_complete` calls it first."""
        headers, limits = self.headers, self.limits
        first_values = dict(reversed(headers))
        self.scope[HEADERS] = first_values  # type: ignore[typeddict-unknown-key]  # uvicorn has only the standard's
        has_host = b"host" in first_values
        if len(first_values) < len(headers) and has_host:
            has_host = [name for name, _ in headers].count(b"host") == 1
        if not has_host and self.parser.get_http_version() != "1.0":
            self._fail(HeadFailure.HOST)  # RFC 9112, section 3.2
        if len(headers) > limits.max_fields:
            self._fail(HeadFailure.TOO_MANY_FIELDS)
        if self._unparsed_bytes > limits.max_bytes and (failure := self._find_size_failure()):
            self._fail(failure)
        if b"expect" in first_values:
            self.expect_100_continue = any(
                name == b"expect" and value.lower() == b"100-continue" for name, value in headers
            )
        self._in_head = False
        self._head_since = None
        self._unparsed_bytes = 0

    def _begin_idle_time(self) -> None:
        """Begins the wait for the next request. Called when a reply is complete."""
        self._idle_since = self._replied_at = now = self.loop.time()
        if self._timer is None or self._timer_due > now + self.timeout_keep_alive:
            self._check_within(self.timeout_keep_alive)

    def end_idle_time(self, max_s: int) -> None:
        """Closes the connection when no request has been on it for `max_s`. What its client has sent is served before.

        Called when the server stops. A new connection gets at least a second: its client is about to send a request.
        """
        if self._in_head or self._is_replying():
            return
        now = self.loop.time()
        if self._idle_since is None:
            self._head_since, self._idle_since, max_s = None, now, max(max_s, _FIRST_READ_S)
        self.timeout_keep_alive = min(self.timeout_keep_alive, max_s)
        left = self._idle_since + self.timeout_keep_alive - now
        if left <= 0:
            self._overdue_since = self._idle_since
        self._check_within(max(left, _LAST_READ_S))

    def close_if_idle(self, seconds: float) -> None:
        """Closes the connection if no request has been on it for so long."""
        if self._idle_since is not None and self.loop.time() - self._idle_since > seconds:
            self.timeout_keep_alive_handler()

    def _unset_keepalive_if_required(self) -> None:
        """Does nothing: `on_message_begin` ends the idle time. Bytes between requests do not."""

    def handle_websocket_upgrade(self) -> None:
        """Hands the connection over to the protocol of WebSockets, which is told of everything from then on."""
        super().handle_websocket_upgrade()
        if self._unread is not None:
            self._unread.end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None and not self.transport.is_closing():
            self._unread.end()

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's returns None
        """Closes the connection, because its client has ended its side of it."""
        self._watch_unread()
        return False

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_unread()

    def _watch_unread(self) -> None:
        """Makes sure that the connection ends although the client does not read what waits for it.

        Called when that has become much, and when the connection is closed: the transport waits until all is sent.
        """
        if self.transport.get_write_buffer_size():
            if self._unread is None:
                self._unread = UnreadWatch(self.transport, self.loop, self.unread_s, self.on_stall)
            self._unread.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()
        if self._unread is not None:
            self._unread.end()

    def _find_size_failure(self) -> HeadFailure | None:
        """Returns the limit that the target, or it and the complete fields of the head, exceed."""
        if not self._in_head:
            return None
        size = len(self.url)
        if size > self.limits.max_bytes:
            return HeadFailure.TARGET_TOO_LONG
        size += sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        return HeadFailure.TOO_LARGE if size > self.limits.max_bytes else None

    def _fail(self, failure: HeadFailure) -> None:
        """Stops the parser, which then raises HttpParserError."""
        self._failure = failure
        raise _HeadRefused(failure)

    def _refuse(self, failure: HeadFailure) -> None:
        """Sends the reply to a refused head, and closes the connection."""
        self._failure = failure
        cycle = self.cycle  # None if the target of a connection's first request is malformed
        is_in_body = not (cycle is None or self._in_head or cycle.response_started)
        in_own_body = failure is HeadFailure.MALFORMED and is_in_body
        if self._is_replying() and not in_own_body:
            # Another reply on the wire must not be followed by this one before its end.
            self.transport.close()
            self._watch_unread()
            return
        status, headers, body = self.refuse_head(failure)
        lines = [
            *self.server_state.default_headers,
            *headers,
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        head = STATUS_LINE[status] + b"".join(b"%b: %b\r\n" % line for line in lines)
        self.transport.write(b"%b\r\n%b" % (head, body))
        self.transport.set_protocol(_LingeringProtocol(self, self.transport, self.loop))

    def _is_replying(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _check_within(self, seconds: float) -> None:
        """Makes sure that the timer fires in at most `seconds`."""
        due = self.loop.time() + seconds
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self.loop.call_at(due, self._check_wait)

    def _check_wait(self) -> None:
        """Ends the current wait if it has lasted too long.

        A busy event loop may check late, and before it has read what the client sent in time. So a wait that is too
        long is checked once more, after the loop has read what there is.
        """
        self._timer = None
        if self._failure is not None:
            return
        if self._head_since is not None:
            if self._is_replying():
                self._head_since = self.loop.time()  # the next head may wait as long as the reply before it
            left = self._head_since + self.limits.max_s - self.loop.time()
        elif self._idle_since is not None:
            left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        else:
            return
        since = self._idle_since if self._head_since is None else self._head_since
        if left > TIMER_STEP_S:
            self._check_within(left)
        elif self._overdue_since != since:
            self._overdue_since = since
            self._check_within(_LAST_READ_S)
        elif self._in_head:
            self._refuse(HeadFailure.TOO_SLOW)
        else:
            self.timeout_keep_alive_handler()


class _LingeringProtocol(asyncio.Protocol):
    """Ends a connection after a refusal: sends the written bytes, and drops what arrives, up to a time and a size."""

    def __init__(
        self, refusing: HttpToolsProtocol, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._refusing = refusing
        self._transport = transport
        self._bytes_left = _LINGER_BYTES
        self._timer = loop.call_later(_LINGER_S, transport.abort)
        if transport.can_write_eof():
            transport.write_eof()

    def data_received(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self._transport.abort()

    def eof_received(self) -> None:
        self._transport.close()

    def pause_writing(self) -> None:
        """Does nothing: nothing more is written."""

    def resume_writing(self) -> None:
        """Does nothing: nothing more is written."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._refusing.connection_lost(exc)


def limit_clients(
    protocol: type[BoundedHttpProtocol],
    limits: HeadLimits,
    refuse_head: Callable[[HeadFailure, HeadLimits], HeadRefusal],
    on_connection: Callable[[int], None],
    *,
    unread_s: float,
    on_stall: Callable[[int], None],
) -> type[BoundedHttpProtocol]:
    """Returns `protocol` with these limits, this reply to heads that exceed them, and listeners to new connections and
    to clients that have read nothing for `unread_s`."""

    def refuse_limited_head(_: BoundedHttpProtocol, failure: HeadFailure) -> HeadRefusal:
        return refuse_head(failure, limits)

    attributes: dict[str, Any] = {
        "limits": limits,
        "refuse_head": refuse_limited_head,
        "on_connection": staticmethod(on_connection),
        "unread_s": unread_s,
        "on_stall": staticmethod(on_stall),
    }
    return type(protocol.__name__, (protocol,), attributes)
