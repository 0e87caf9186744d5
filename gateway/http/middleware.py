"""ASGI middleware around every request: its request id and its access log line."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol, TypeAlias

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dataplane.http_protocol import CLIENT, CONNECTION, ClientWriter
from gateway.http.headers import headers_of
from gateway.http.owner_counts import ON_END
from gateway.logs import (
    begin_fields,
    bind_fields,
    clear_fields,
    read_bound_fields,
    render_request,
    write_request_lines,
)
from providers.new_id import draw_random_bytes
from providers.request_ids import CURRENT_IDS, RequestIds, parse_request_id

_log = structlog.get_logger(__name__)

_ID_DIGITS = 32

_SCOPE_TYPES = frozenset({"http", "websocket"})
_START_MESSAGES = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
"""Types of the messages that begin a reply. `websocket.accept` has no status; it is logged as 101."""

_SWITCHING_PROTOCOLS = 101

_NO_APPS: Final[Mapping[str, ASGIApp]] = {}

BODY_SEND = "gateway.body_send"
"""Scope key of the server's own `send`. Body messages use it to bypass this middleware: a stream has thousands."""


class ReplySender:
    """One request's `send`, with methods that send a reply in one write.

    A caller uses them only if its `send` is a ReplySender itself, and not another middleware's wrapper around it.
    """

    __slots__ = ("_client", "_ids", "_send", "has_ended", "status")

    def __init__(self, send: Send, client: ClientWriter | None, ids: RequestIds) -> None:
        self._send = send
        self._client = client
        self._ids = ids
        self.status = 0
        self.has_ended = False
        """Whether all of a reply was sent by calling this object."""

    async def __call__(self, message: Message) -> None:
        if message["type"] in _START_MESSAGES:
            self.status = message.get("status", _SWITCHING_PROTOCOLS)
            message["headers"] = [*message.get("headers", ()), *self._build_id_headers()]
        await self._send(message)
        self.has_ended = message["type"] == "http.response.body" and not message.get("more_body", False)

    def send_reply(self, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Sends a whole reply of status 200 in one write. `headers` must include `content-length`.

        Returns False if nothing was sent.
        """
        if self._client is None or not self._client.send_reply([*headers, *self._build_id_headers()], body):
            return False
        self.status = 200
        return True

    def begin_reply(self, headers: Sequence[tuple[bytes, bytes]], piece: bytes, *, last: bool) -> bool:
        """Begins a chunked reply of status 200 in one write: its headers and the first `piece` of its body, if any.

        `last` ends the reply. Returns False if nothing was sent.
        """
        own_headers = self._build_id_headers()
        if self._client is None or not self._client.begin_stream((*headers, *own_headers), piece, last=last):
            return False
        self.status = 200
        return True

    def _build_id_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Returns the headers with the id of the request, and with the upstream's, if it has sent one so far."""
        own = (b"x-request-id", self._ids.own.encode())
        upstream = self._ids.upstream
        return ((b"x-upstream-request-id", upstream.encode()), own) if upstream else (own,)


FindRefusal: TypeAlias = Callable[[Scope, Mapping[bytes, bytes]], Response | None]
"""Returns the reply to a request that is refused, or None, by its scope and its headers."""


class RequestMeter(Protocol):
    """Measures one request."""

    def leave(self) -> None:
        """The request is over: what runs on in its context does not belong to it."""
        ...

    def end(self, status: int, elapsed_ns: int, fields: dict[str, object]) -> None:
        """The request has ended. `fields` are bound to its log lines. Those that only the last line has, which is
        written next, are added to them. Called once, after `leave`."""
        ...


class RequestMeters(Protocol):
    """Measures the requests of one server process."""

    def begin_request(self, scope: Scope, began_ns: int) -> RequestMeter:
        """A request has arrived, at this time of the performance counter."""
        ...

    def end_socket(self, fields: Mapping[str, object]) -> None:
        """A WebSocket has ended, or was refused, and its log line is written next."""
        ...


class EndedRequest(NamedTuple):
    """One request that has ended. `meter` is None if nobody measures it, as for a WebSocket."""

    method: str
    path: str
    status: int
    elapsed_ns: int
    meter: RequestMeter | None
    fields: dict[str, object]
    """A copy of the fields that were bound to its log lines."""


class EndedRequests:
    """The requests that have ended since they were last counted and logged, which is in the next turn of the loop.

    Their clients have had their replies before. Doing this work for several requests in a row costs less than doing it
    for each of them between the reads of others, and their lines are one write.
    """

    def __init__(self, meters: RequestMeters | None = None) -> None:
        self._meters = meters
        self._requests: list[EndedRequest] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop whose next turn writes them."""

    def add(self, method: str, path: str, status: int, elapsed_ns: int, meter: RequestMeter | None) -> None:
        """Adds a request of the current context, and clears the fields that are bound to its log lines."""
        if (loop := asyncio.get_running_loop()) is not self._loop:
            self._loop = loop
            loop.call_soon(self.write, context=Context())
        if meter is not None:
            meter.leave()
        fields = {**read_bound_fields()}  # tasks that the request has left behind have the original
        self._requests.append(EndedRequest(method, path, status, elapsed_ns, meter, fields))
        clear_fields()

    def write(self) -> None:
        """Counts and logs the requests that were added so far."""
        requests, self._requests, self._loop = self._requests, [], None
        lines = []
        now = datetime.now(UTC)
        for method, path, status, elapsed_ns, meter, fields in requests:
            # Milliseconds, rounded to a tenth. `round` would take a microsecond.
            elapsed_ms = (elapsed_ns + 50_000) // 100_000 / 10
            try:
                if meter is not None:
                    meter.end(status, elapsed_ns, fields)
                elif self._meters is not None:
                    self._meters.end_socket(fields)
            except Exception:  # the other requests have to be counted and logged
                _log.exception("request_not_counted", request_id=fields.get("request_id"))
            try:
                lines.append(render_request(method, path, status, elapsed_ms, fields, now))
            except Exception:  # as well
                _log.exception("request_not_logged", request_id=fields.get("request_id"))
        write_request_lines(lines)


class RequestMiddleware:
    """Gives every request an id and a log line.

    The id is the client's `x-request-id` if that is printable ASCII of at most 128 characters, else a new one. Every
    reply has it as a header, and upstreams get it. The id that an upstream sent with its own reply is the header
    `x-upstream-request-id`, unless that reply began too late. The log line has the fields that inner layers bind
    (client, model, provider), but no body and no headers.
    """

    def __init__(
        self,
        app: ASGIApp,
        find_refusal: FindRefusal = lambda *_: None,
        meters: RequestMeters | None = None,
        unlogged: Mapping[str, ASGIApp] = _NO_APPS,
    ) -> None:
        """`find_refusal` returns the reply to a request that `app` does not get. `meters` measure requests.

        `unlogged` are applications by their paths, whose requests are neither logged nor counted.
        """
        self._app = app
        self._find_refusal = find_refusal
        self._meters = meters
        self._unlogged = unlogged
        self._ended = EndedRequests(meters)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in _SCOPE_TYPES:
            await self._app(scope, receive, send)
            return
        if scope["path"] in self._unlogged and kind == "http":
            self._ended.write()  # a client may read metrics right behind another request, on the same connection
            await self._unlogged[scope["path"]](scope, receive, send)
            return
        headers = headers_of(scope)
        client_id = headers.get(b"x-request-id")
        request_id = (client_id and parse_request_id(client_id)) or new_request_id()
        ids = RequestIds(request_id)
        began = time.perf_counter_ns()
        reply_sender = ReplySender(send, scope.get(CLIENT), ids)
        scope[BODY_SEND] = send
        # A pipelined request starts in the context of the request before it.
        begin_fields(request_id=request_id)
        CURRENT_IDS.set(ids)
        meters = self._meters
        meter = meters.begin_request(scope, began) if meters is not None and kind == "http" else None
        try:
            app = self._find_refusal(scope, headers) or self._app
            await app(scope, receive, reply_sender)
        except Exception:
            # The framework raises an unexpected error again after it has replied. The server would then close the
            # connection without having said so, and the client's next request on it would fail.
            if not reply_sender.has_ended:
                raise
            _log.exception("request_failed")
        finally:
            if ids.upstream or ids.served_by:
                bind_fields(**ids.list_log_fields())
            elapsed_ns = time.perf_counter_ns() - began
            # Both refer back to the scope. Deleting them leaves no reference cycle for the garbage collector.
            del scope[BODY_SEND]
            if (on_end := scope.pop(ON_END, None)) is not None:
                on_end()
            scope.pop(CLIENT, None)
            scope.pop(CONNECTION, None)
            method = scope.get("method", "WEBSOCKET")
            self._ended.add(method, scope["path"], reply_sender.status, elapsed_ns, meter)


def new_request_id() -> str:
    """Returns an id for a request whose client sent none."""
    return f"req_{draw_random_bytes().hex()[:_ID_DIGITS]}"
