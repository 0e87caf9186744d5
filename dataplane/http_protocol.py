"""uvicorn's HTTP protocol with a client writer per request, which bypasses the coroutines of ASGI.

It returns bodies that have arrived, writes replies, and reports disconnects. It knows nothing of routes.
"""

import asyncio
import os
import re
import socket
from collections.abc import Callable, MutableMapping, Sequence
from time import monotonic
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from dataplane.bounded_protocol import BoundedHttpProtocol
from dataplane.client_watches import HalfClosedWatch
from dataplane.core import ChunkWriter

CLIENT: Final = "gateway.client"
"""The key of a request's ClientWriter in its ASGI scope. Other servers do not set it, nor do requests of HTTP/1.0."""

CONNECTION: Final = "gateway.connection"
"""The key of the HttpProtocol in the ASGI scope of a request of HTTP/1.0, which has no ClientWriter."""

_OK = 200

_HEADER_BYTES = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
"""The bytes that uvicorn allows in a header: none that would end it."""

_PLAIN_PATH = re.compile(rb"(?:/[\w.-]+)+").fullmatch
"""Matches a request target that is only a path, without a query or escapes to decode."""

_UNANNOUNCED_S = 1
"""Seconds of idle time after which a server that stops closes a connection whose last reply did not announce it."""

_PROCESSING: Final = b"HTTP/1.1 102 Processing\r\n\r\n"
"""An interim response, which every client of HTTP/1.1 must skip (RFC 9110, section 15.2)."""

_LAST_CHUNK = b"0\r\n\r\n"
"""The end of a body in chunks (RFC 9112, section 7.1)."""


class ClientWriter(ChunkWriter):
    """Reads the body and writes the reply of one request, without the coroutines `receive` and `send`.

    A method that returns None or False has changed nothing. The caller then uses the server's `receive` or `send`.
    """

    __slots__ = ("_cycle", "_has_left", "loop", "on_leave", "on_silence")

    def __init__(self, cycle: RequestResponseCycle, loop: asyncio.AbstractEventLoop, socket: int) -> None:
        """`loop` is the running event loop, and `socket` is `ChunkWriter.socket`."""
        self.loop = loop
        self._cycle = cycle
        self.ready = not cycle.flow.write_paused
        self.transport = cycle.transport
        self.socket = socket
        self.write_chunk = cycle.transport.write
        self.sent_at = 0.0
        # Not `cycle.disconnected`: uvicorn sets it only for the last of several pipelined requests.
        self._has_left = False
        self.on_leave: Callable[[], None] | None = None
        """Called when the client disconnects. `watch` sets it, and the caller of `watch` resets it to None."""
        self.on_silence: Callable[[], None] | None = None
        """Called to send a keep-alive of the stream that has begun, if it has one."""

    def take_body(self, max_bytes: int) -> bytes | None:
        """Returns the body of the request, and marks it as read.

        Returns None if the body is empty or larger than `max_bytes`, has not arrived in full, or has been read; if the
        client has disconnected; or if it waits for `100 Continue`.
        """
        cycle = self._cycle
        if cycle.more_body or not cycle.body or self._has_left or cycle.waiting_for_100_continue:
            return None
        if len(cycle.body) > max_bytes:
            return None
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.message_event.clear()
        return body

    def send_reply(self, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Sends a whole reply of status 200. `headers` contain its length.

        Returns False if a reply has begun, the client is not ready, the method is HEAD, or a header is invalid.
        """
        if (head := self._build_head(headers)) is None:
            return False
        self._cycle.chunked_encoding = False
        self.write_chunk(b"%b\r\n\r\n%b" % (head, body))
        self._complete_reply()
        return True

    def begin_stream(self, headers: Sequence[tuple[bytes, bytes]], piece: bytes, *, last: bool) -> bool:
        """Sends the head of a reply of status 200, and the first piece of its body, which may be empty.

        With `last`, the piece is the whole body. Returns False for the same reasons as `send_reply`.
        """
        if (head := self._build_head(headers)) is None:
            return False
        self._cycle.chunked_encoding = True
        end = _LAST_CHUNK if last else b""
        self.write_chunk(b"%b\r\ntransfer-encoding: chunked\r\n\r\n%b%b" % (head, _encode_chunk(piece), end))
        if last:
            self._complete_reply()
        return True

    def write_piece(self, piece: bytes) -> bool:
        """Writes a piece of a body. Returns False if the client is not ready; the piece must then go through `send`.

        The piece is not empty. The reply was begun without a length, and its end was not sent.
        """
        if not self.ready:
            return False
        self.write_chunk(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.sent_at = monotonic()
        return True

    def end_stream(self, piece: bytes) -> bool:
        """Writes the last piece, which may be empty, and the end of the body. Returns False like `write_piece`."""
        if not self.ready or self._cycle.response_complete:
            return False
        self.write_chunk(_encode_chunk(piece) + _LAST_CHUNK)
        self._complete_reply()
        return True

    def watch(self, on_leave: Callable[[], None]) -> None:
        """Calls `on_leave` when the client disconnects, or at once if it has."""
        self.on_leave = on_leave
        if self._cycle.flow.read_paused:
            self.resume_reading()
        if self._has_left:
            on_leave()

    def resume_reading(self) -> None:
        """Reads the socket again after a body was read. A large one may have paused it, and a paused socket does not
        report a disconnect."""
        flow = self._cycle.flow
        if flow.read_paused:
            flow.resume_reading()

    def set_ready(self, ready: bool) -> None:
        """Called when the client falls behind in reading (False), and when it has caught up (True)."""
        self.ready = ready and not self._has_left

    def on_disconnect(self) -> None:
        """Called when the client has disconnected."""
        self._has_left = True
        self.ready = False
        if self.on_leave is not None:
            self.on_leave()

    def probe(self) -> None:
        """Sends something that shows whether the client is still there, if the reply allows that now."""
        cycle = self._cycle
        if not cycle.response_started:
            self.write_chunk(_PROCESSING)
        elif self.on_silence is not None and self.ready:
            self.on_silence()

    def _build_head(self, headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
        """Returns the head of a reply without its last line, and marks the reply as started.

        Returns None if it cannot be sent here, or not at once.
        """
        cycle = self._cycle
        if cycle.response_started or not self.ready or cycle.scope["method"] == "HEAD":
            return None
        lines = list(map(b": ".join, (*cycle.default_headers, *headers)))
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        fields = b"\r\n".join(lines)
        if len(fields.translate(None, _HEADER_BYTES)) != len(b"\r\n") * (len(lines) - 1):
            return None
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        return STATUS_LINE[_OK] + fields

    def _complete_reply(self) -> None:
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()


def call_when_read(scope: MutableMapping[str, Any], callback: Callable[[], None]) -> None:
    """Calls `callback` once little of a request's reply waits for its client to read it, or its connection is lost.

    Called when the reply is complete. Other servers, and WebSockets, call it at once.
    """
    if (connection := find_connection(scope)) is None:
        callback()
    else:
        connection.call_when_read(callback)


def find_connection(scope: MutableMapping[str, Any]) -> "HttpProtocol | None":
    """Returns the connection of a request; None on other servers, and once a WebSocket has it."""
    client: ClientWriter | None = scope.get(CLIENT)
    connection: Any = scope.get(CONNECTION) if client is None else client.transport.get_protocol()
    return connection if isinstance(connection, HttpProtocol) else None


def get_running_loop(client: ClientWriter | None) -> asyncio.AbstractEventLoop:
    """Returns the running event loop, from the client writer if there is one.

    In CPython 3.11 `asyncio.get_running_loop` makes a system call each time, because it checks the process id.
    """
    return asyncio.get_running_loop() if client is None else client.loop


def _encode_chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


class _OldHttpSender:
    """The `send` of a request of HTTP/1.0, which has no transfer coding: without a length, a body ends with the
    connection (RFC 9112, section 6.3). uvicorn would send chunks."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._send = cycle.send
        self._has_length = True

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            if not self._has_length:
                self._cycle.chunked_encoding = False
        elif not self._has_length:
            self._cycle.expected_content_length = len(message.get("body", b""))
        await self._send(message)


class HttpProtocol(BoundedHttpProtocol):
    """Gives each request its ClientWriter when its turn on the connection comes."""

    __slots__ = ("_client", "_half_closed", "_path", "_path_url", "_running_cycle", "_socket", "_when_read")

    _closes_connections: ClassVar[bool] = False
    """Whether each reply ends its connection, because the server stops."""

    _last_idle_s: ClassVar[int] = 0
    """Seconds of idle time after which a server that stops closes a connection."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._client: ClientWriter | None = None
        self._running_cycle: RequestResponseCycle | None = None
        """The request whose turn it is. Not `cycle`: that is the last of several pipelined requests."""
        self._path_url = b""
        self._path = ""
        """The last request target that was a plain path, decoded. Most requests of a connection have the same one."""
        self._socket = -1
        self._half_closed: HalfClosedWatch | None = None
        """The watch over a client that has ended its side of the connection, and waits for its replies."""
        self._when_read: Sequence[Callable[[], None]] = ()

    @classmethod
    def close_connections_after_replies(cls, last_idle_s: int = 0) -> None:
        """Ends each connection with the next reply that begins on it, which says so. Called when the server stops.

        It holds for all connections of this class, of which each server has its own (`limit_clients`). `shutdown` then
        closes those that have been idle for `last_idle_s`. Clients that give idle connections up sooner lose no
        request: one that is sent just as the server closes its connection is lost.
        """
        cls._closes_connections = True
        cls._last_idle_s = last_idle_s

    @property
    def awaits_body(self) -> bool:
        """Whether the rest of a request's body has not arrived."""
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete

    def shutdown(self) -> None:
        """Ends the connection when the server stops: with its reply, or when it has been idle for long enough.

        A reply that has begun could not announce it, and its client may send another request, which is served.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self.end_idle_time(self._last_idle_s)
        elif cycle.response_started:
            self.timeout_keep_alive = min(self.timeout_keep_alive, max(self._last_idle_s, _UNANNOUNCED_S))
        else:
            super().shutdown()

    def announce_close(self) -> None:
        """Ends the connection with the reply that has not begun yet, if there is one."""
        if self.cycle is not None and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # With TLS only the transport can write.
        if transport.get_extra_info("ssl_object") is None and (socket := transport.get_extra_info("socket")):
            self._socket = socket.fileno()

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's returns None
        """Keeps the connection for the replies to whole requests, after the client has ended its side of it.

        Clients of HTTP/1.0 count as gone: there is no interim response to probe them with. So do those of TLS, where
        event loops end both sides together. After the reply has begun, only those of streams with keep-alives are kept:
        whoever waits for another reply ended its side right after the request.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body or self._socket < 0:
            return super().eof_received()
        if cycle.scope["http_version"] == "1.0":
            return super().eof_received()
        if cycle.response_started and (self._client is None or self._client.on_silence is None):
            return super().eof_received()
        if not self.pipeline:
            cycle.keep_alive = False
        self._half_closed = self._half_closed or HalfClosedWatch(
            self.transport, self.loop, self._socket, self._probe_client
        )
        return True

    def _probe_client(self) -> None:
        if self._client is not None:
            self._client.probe()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._begin_idle_time()

    def on_headers_complete(self) -> None:
        self._end_head()
        # Half of uvicorn's method is for requests that are not plain. Without it a reply that is not streamed takes a
        # fortieth less. A test compares this method with uvicorn's.
        scope, parser, previous = self.scope, self.parser, self.cycle
        upgrades = parser.should_upgrade()
        if upgrades and self._has_other_upgrade():
            return  # the head is parsed again without it
        path = self._path if self.url == self._path_url else self._parse_path()
        if (
            path is None
            or upgrades
            or self.root_path
            or self.limit_concurrency is not None
            or (previous is not None and not previous.response_complete)
        ):
            super().on_headers_complete()
            return
        http_version = parser.get_http_version()
        scope["http_version"] = http_version
        scope["method"] = parser.get_method().decode()
        scope["path"] = path
        scope["raw_path"] = self.url
        scope["query_string"] = b""
        self.cycle = RequestResponseCycle(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            http_version != "1.0" and parser.should_keep_alive(),
            self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def _parse_path(self) -> str | None:
        """Returns the path of a request target that is only a path; None for any other."""
        if _PLAIN_PATH(self.url) is None:
            return None
        self._path_url, self._path = self.url, self.url.decode()
        return self._path

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._closes_connections or (self._half_closed is not None and not self.pipeline):
            cycle.keep_alive = False
        self._running_cycle = cycle
        scope: dict[str, Any] = cycle.scope  # type: ignore[assignment]
        if scope["http_version"] == "1.0":
            # A client writer writes chunks.
            self._client = None
            scope[CONNECTION] = self
            cycle.send = _OldHttpSender(cycle)  # type: ignore[method-assign]
        else:
            self._client = scope[CLIENT] = ClientWriter(cycle, self.loop, self._socket)
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self._end_task)
        self.tasks.add(task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if self.transport.is_closing():
            self._watch_unread()

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        self._call_waiting()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._client is not None:
            self._client.set_ready(False)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._client is not None:
            self._client.set_ready(True)
        self._call_waiting()

    def call_when_read(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once little of what was written waits for the client, or the connection is lost."""
        if self.flow.write_paused:  # not after a loss: uvicorn ends the pause then
            self._when_read = [*self._when_read, callback]
        else:
            callback()

    def _call_waiting(self) -> None:
        waiting, self._when_read = self._when_read, ()
        for callback in waiting:
            callback()

    def connection_lost(self, exc: Exception | None) -> None:
        if (running := self._running_cycle) is not None and not running.response_complete:
            # uvicorn tells only the last of several pipelined requests. This one would wait for its client forever, or
            # write to a closed transport, which is an error.
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)
        self._call_waiting()
        if self._half_closed is not None:
            self._half_closed.stop()
        if self._client is not None:
            self._client.on_disconnect()


class NagleHttpProtocol(HttpProtocol):
    """Turns Nagle's algorithm (RFC 896) on, which event loops turn off.

    Small writes then wait until the client has acknowledged the bytes before them.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # uvloop's socket object cannot set options. They belong to the connection, so a duplicate descriptor can do it.
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as duplicate:
            duplicate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
