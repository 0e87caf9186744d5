"""uvicorn's HTTP protocol, with ways past its coroutines: for a body that is there, for pieces of a reply, and to hear
of a client that left."""

import asyncio
import os
import re
import socket
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dataplane.client_writer import ChunkWriter

CLIENT: Final = "gateway.client"
"""Scope key of a request's `Client`; other servers have none."""

_OK = 200

_SAFE = bytes(byte for byte in range(256) if byte == 0x09 or (byte >= 0x20 and byte != 0x7F))
"""What may be in a header, as uvicorn has it: nothing that would end it."""

_PLAIN_PATH = re.compile(rb"(?:/[\w.-]+)+").fullmatch
"""Of an address that is nothing but a path, with nothing in it to decode."""

_END = b"0\r\n\r\n"
"""Of a body in chunks."""


class ClientWriter(ChunkWriter):
    """Who sent one request, as near as this server can be to them.

    What it says no to, it has left as it was: it then goes through the server's own `receive` and `send`.
    """

    __slots__ = ("_cycle", "_has_left", "loop", "on_leave")

    def __init__(self, cycle: RequestResponseCycle, loop: asyncio.AbstractEventLoop, socket: int) -> None:
        """`socket`: as a ChunkWriter has it."""
        self.loop = loop
        self._cycle = cycle
        self.ready = not cycle.flow.write_paused
        self.transport = cycle.transport
        self.socket = socket
        self.write_chunk = cycle.transport.write
        self.sent_at = 0.0
        # Not the cycle's own word: the server gives it only to the last of requests that were sent in a row.
        self._has_left = False
        self.on_leave: Callable[[], None] | None = None
        """Called when the client hangs up; `watch` sets it, and whoever did takes it back."""

    def take_body(self) -> bytes | None:
        """The body of the request; None where it is empty, more of it is to come, or it has been read."""
        cycle = self._cycle
        if cycle.more_body or not cycle.body or self._has_left or cycle.waiting_for_100_continue:
            return None
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.message_event.clear()
        return body

    def send_reply(self, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Send a whole reply of status 200. `headers` tell its length."""
        if (head := self._build_head(headers)) is None:
            return False
        self._cycle.chunked_encoding = False
        self.write_chunk(b"%b\r\n\r\n%b" % (head, body))
        self._complete_reply()
        return True

    def begin_stream(self, headers: Sequence[tuple[bytes, bytes]], piece: bytes, *, last: bool) -> bool:
        """Send the head of a reply of status 200 and the first piece of its body, if any; `last`: it is all of it."""
        if (head := self._build_head(headers)) is None:
            return False
        self._cycle.chunked_encoding = True
        end = _END if last else b""
        self.write_chunk(b"%b\r\ntransfer-encoding: chunked\r\n\r\n%b%b" % (head, _encode_chunk(piece), end))
        if last:
            self._complete_reply()
        return True

    def write_piece(self, piece: bytes) -> bool:
        """Send a piece, which is not empty, now. False where its reader is not ready: then it has to be sent.

        The reply has begun, without a length, and its end has not been sent.
        """
        if not self.ready:
            return False
        self.write_chunk(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.sent_at = monotonic()
        return True

    def end_stream(self, piece: bytes) -> bool:
        """The same with the last piece, which may be empty, and the end."""
        if not self.ready or self._cycle.response_complete:
            return False
        self.write_chunk(_encode_chunk(piece) + _END)
        self._complete_reply()
        return True

    def watch(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the client hangs up, now if it has."""
        self.on_leave = tell
        # What was read of a large body may have paused it, and who does not read does not hear of an end.
        flow = self._cycle.flow
        if flow.read_paused:
            flow.resume_reading()
        if self._has_left:
            tell()

    def set_ready(self, ready: bool) -> None:
        """The client has fallen behind in reading, or has caught up."""
        self.ready = ready and not self._has_left

    def on_disconnect(self) -> None:
        """The client has hung up."""
        self._has_left = True
        self.ready = False
        if self.on_leave is not None:
            self.on_leave()

    def _build_head(self, headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
        """All but the last line of a reply's head, which is then sent; None where it cannot be, or has to wait."""
        cycle = self._cycle
        if cycle.response_started or not self.ready or cycle.scope["method"] == "HEAD":
            return None
        lines = list(map(b": ".join, (*cycle.default_headers, *headers)))
        if b"".join(lines).translate(None, _SAFE):
            return None
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        return STATUS_LINE[_OK] + b"\r\n".join(lines)

    def _complete_reply(self) -> None:
        cycle = self._cycle
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()


def running_loop(client: ClientWriter | None) -> asyncio.AbstractEventLoop:
    """The running one. This Python asks the system for its process id whenever it is asked for it."""
    return asyncio.get_running_loop() if client is None else client.loop


def _encode_chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


class HttpProtocol(HttpToolsProtocol):
    """Gives each request its `Client` when its turn on the connection comes.

    A connection has one timer for the idle times between its requests, which asks how long the present one lasts and
    sets itself again: one that is set and cancelled around each request costs more than all that is done with it.
    """

    _client: ClientWriter | None = None
    _idle_since: float | None = None
    """When the last reply ended, if nothing has come since."""
    _idle_timer: asyncio.TimerHandle | None = None
    _path_url = b""
    _path = ""
    """Of the last address that was a plain path: the requests of a connection mostly have one and the same."""
    _socket = -1

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # What goes through TLS is the transport's to write.
        if transport.get_extra_info("ssl_object") is None and (socket := transport.get_extra_info("socket")):
            self._socket = socket.fileno()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self._check_idle_in(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _check_idle_in(self, seconds: float) -> None:
        self._idle_timer = self.loop.call_later(seconds, self._check_idle)

    def _check_idle(self) -> None:
        self._idle_timer = None
        if self._idle_since is None:
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0.001:  # what a timer can tell
            self._check_idle_in(left)
        else:
            self.timeout_keep_alive_handler()

    def on_headers_complete(self) -> None:
        # Half of what uvicorn does here is for requests that are not plain: without it a whole answer takes a fortieth
        # less. A test holds this against uvicorn's own.
        scope, parser, before = self.scope, self.parser, self.cycle
        path = self._path if self.url == self._path_url else self._read_path()
        if (
            path is None
            or self.root_path
            or self.limit_concurrency is not None
            or parser.should_upgrade()
            or (before is not None and not before.response_complete)
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

    def _read_path(self) -> str | None:
        """That of an address which is nothing else."""
        if _PLAIN_PATH(self.url) is None:
            return None
        self._path_url, self._path = self.url, self.url.decode()
        return self._path

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        scope: dict[str, Any] = cycle.scope  # type: ignore[assignment]
        self._client = scope[CLIENT] = ClientWriter(cycle, self.loop, self._socket)
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._client is not None:
            self._client.set_ready(False)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._client is not None:
            self._client.set_ready(True)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._client is not None:
            self._client.on_disconnect()


class GatheringHttpProtocol(HttpProtocol):
    """Leaves Nagle's algorithm (RFC 896) on, which event loops turn off: what is small waits until the client has
    acknowledged what went before."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        # What uvloop gives out as its socket has no options; they belong to the connection, whatever it is called by.
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as same:
            same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
