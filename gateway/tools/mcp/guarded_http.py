"""The HTTP transport of connections to MCP servers: through the egress guard, bounded, and never raising.

An exception here would end the library's connection, with all requests that run on it. So a failure is written into the
record of the request, and the library gets an HTTP error, which ends only that request.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

import httpx2
import orjson

from dataplane.sharing.fair_turns import NO_OWNER, current_owner
from gateway.tools.mcp.bounded_body import CONNECTION_CLOSED, BoundedBody
from gateway.tools.mcp.errors import SESSION_LOST, McpFault, describe_unreachable
from gateway.tools.mcp.messages import CALL_CANCELLED
from gateway.tools.mcp.request_record import RequestRecord, current_record
from gateway.tools.mcp.server import PROBE_S, TokenSource
from providers.egress import EgressClient, EgressRefused, GuardedSender
from translation.hosted.bounds import AnswerLimits

_NOTICE_S: Final = 1.0
"""The deadline of messages that need no answer: notifications, replies, the end of a session."""

_ERROR_BYTES: Final = 16 * 1024
"""The bytes of the body of an HTTP error that are read."""

_ERROR_LIMITS: Final = AnswerLimits(max_bytes=_ERROR_BYTES)

_MESSAGE_CHARS: Final = 500
"""The longest message from the body of an HTTP error."""

_EVENT_STREAM: Final = "text/event-stream"

_SCOPE: Final = re.compile(r'scope="?([^",]+)')


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to the addresses that the egress guard allows.

    `is_session_lost`: the server no longer knows the session, so that only a new one can be used. `scrub` removes
    credentials from texts of the server. `report_change` is called when its list of tools changed, `report_progress`
    with the parameters of progress notifications. With `uses_sse` all answers come over one stream, as in the older
    transport. `tokens` has the tokens for the server.
    """

    def __init__(
        self,
        egress: EgressClient,
        scrub: Callable[[str], str],
        report_change: Callable[[], None] = lambda: None,
        report_progress: Callable[[Any], None] = lambda _: None,
        *,
        uses_sse: bool = False,
        tokens: TokenSource | None = None,
    ) -> None:
        self.is_session_lost = False
        self._report_change = report_change
        self._report_progress = report_progress
        self._uses_sse = uses_sse
        self._sender = GuardedSender(egress)
        self._scrub = scrub
        self._tokens = tokens
        self._cancellations: set[asyncio.Task[None]] = set()
        """Those of calls that are being sent."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Returns the reply. Without a reply it returns status 503, with the reason in the record of the request."""
        record = current_record.get() or RequestRecord(_ERROR_LIMITS)
        message = _read_message(request)
        is_call = "method" in message and "id" in message
        if message.get("method") == CALL_CANCELLED:
            return self._start_cancellation(request, message)
        if request.method == "GET" and record.has_failed:
            return httpx2.Response(503)  # the library would resume a reply that was cut
        if is_call:
            record.fault = None
            record.request_id = message["id"]
        try:
            async with asyncio.timeout(None if is_call or request.method == "GET" else _NOTICE_S):
                reply = await self._send(request, message)
        except McpFault as fault:
            return self._refuse(record, fault)
        except EgressRefused as error:
            return self._refuse(record, McpFault("egress_refused", str(error)))
        except TimeoutError:
            return self._refuse(record, McpFault("timeout", "the server does not answer"))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return self._refuse(record, McpFault("connection_closed", describe_unreachable(error)))
        except httpx2.TransportError:
            return self._refuse(record, McpFault("connection_closed", CONNECTION_CLOSED))
        if request.method != "GET" and not is_call:
            await reply.aclose()
            return httpx2.Response(reply.status_code)
        is_compressed = reply.headers.get("content-encoding", "identity").lower() != "identity"
        if is_compressed and (is_call or reply.status_code < 400):  # a refused stream is none
            await reply.aclose()
            return self._refuse(record, McpFault("invalid_result", "the answer is compressed, which was not asked for"))
        if is_call:
            return await self._check_reply(request, reply, record)
        if not record.is_of_session:
            return self._bound(reply, record)
        if self._uses_sse and (reply.status_code >= 400 or reply.has_redirect_location):
            return await self._check_reply(request, reply, record)
        return self._bound(reply, record.create_stream_record(), is_lasting=True)

    async def wait_for_cancellations(self) -> None:
        """Waits until the cancellations of calls have arrived at the server, or their deadline of a second is over."""
        if self._cancellations:
            await asyncio.wait(self._cancellations)

    def _start_cancellation(self, request: httpx2.Request, message: Mapping[str, Any]) -> httpx2.Response:
        """Sends a cancellation in a task of its own. The library would send one after another, and drop those that
        have not been sent when its session ends."""
        task = asyncio.get_running_loop().create_task(self._send_cancellation(request, message))
        self._cancellations.add(task)
        task.add_done_callback(self._cancellations.discard)
        return httpx2.Response(202)

    async def _send_cancellation(self, request: httpx2.Request, message: Mapping[str, Any]) -> None:
        current_owner.set(NO_OWNER)  # the connections of its owner may be in use by the very calls that it cancels
        with suppress(McpFault, EgressRefused, TimeoutError, httpx2.TransportError):  # the call has ended all the same
            async with asyncio.timeout(_NOTICE_S):
                reply = await self._send(request, message)
            await reply.aclose()

    async def _send(self, request: httpx2.Request, message: Mapping[str, Any]) -> httpx2.Response:
        """Sends a request, with a token if the server needs one. A token that it rejects is replaced once: a request
        that got status 401 was not carried out. Raises McpFault, TimeoutError, EgressRefused, httpx2.TransportError."""
        deadline = PROBE_S if message.get("method") == "server/discover" else None
        if self._tokens is None:
            async with asyncio.timeout(deadline):
                return await self._sender.send(request)
        token = await self._tokens.get_token()
        for is_last in (False, True):
            request.headers["authorization"] = f"Bearer {token}"
            async with asyncio.timeout(deadline):
                reply = await self._sender.send(request)
            if reply.status_code != 401 or is_last:
                break
            await reply.aclose()
            token = await self._tokens.get_token(rejected=token)
        return reply

    async def _check_reply(
        self, request: httpx2.Request, reply: httpx2.Response, record: RequestRecord
    ) -> httpx2.Response:
        """Returns the reply to a request of the protocol: bounded if it is an answer, else with its fault recorded."""
        status, media_type = reply.status_code, reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if status < 400:
            if reply.has_redirect_location:
                record.fault = McpFault("egress_refused", "the server redirects elsewhere, which is not followed")
            elif status != 202 and not self._uses_sse and media_type not in ("application/json", _EVENT_STREAM):
                await self._record_error(reply, record)
                return httpx2.Response(503)
            return self._bound(reply, record)
        body = await self._record_error(reply, record)
        if status == 404 and "mcp-session-id" in request.headers:
            self.is_session_lost = True
            record.fault = McpFault("session_lost", SESSION_LOST)
        elif status not in (401, 403) and _is_rpc_error(body):
            record.fault = None  # the library reads the error
        if self._uses_sse and record.fault is not None:
            record.fail(record.fault)  # the library would wait for the answer on the other stream
        return httpx2.Response(status, headers={"content-type": media_type}, content=body)

    def _refuse(self, record: RequestRecord, fault: McpFault) -> httpx2.Response:
        record.fault = fault
        if self._uses_sse:
            record.fail(fault)
        return httpx2.Response(503)

    def _bound(self, reply: httpx2.Response, record: RequestRecord, *, is_lasting: bool = False) -> httpx2.Response:
        is_event_stream = reply.headers.get("content-type", "").lower().startswith(_EVENT_STREAM)
        if is_event_stream:
            reply.headers["content-type"] = _EVENT_STREAM  # with no other encoding than the one that is examined
        reply.stream = BoundedBody(
            _read_stream(reply),
            record,
            is_event_stream=is_event_stream,
            is_lasting=is_lasting,
            report_change=self._report_change,
            report_progress=self._report_progress,
            on_end=self._lose_session if self._uses_sse and is_lasting else _do_nothing,
        )
        return reply

    def _lose_session(self) -> None:
        self.is_session_lost = True

    async def _record_error(self, reply: httpx2.Response, record: RequestRecord) -> bytes:
        """Returns the beginning of the body of an error reply, and records the fault."""
        body = await _read_head(reply)
        status = reply.status_code
        meaning, text = _describe_status(reply.headers, status), " ".join(body.decode(errors="replace").split())
        message = self._scrub(f"{meaning}: {text}" if text else meaning)  # before it is cut, maybe within a credential
        record.fault = McpFault("http_error", message[:_MESSAGE_CHARS], code=status)
        return body

    async def aclose(self) -> None:
        await self._sender.aclose()


def _do_nothing() -> None: ...


def _read_message(request: httpx2.Request) -> dict[str, Any]:
    """Returns the message of a request; empty for the stream of a server and the end of a session."""
    message = orjson.loads(request.content) if request.method == "POST" else {}
    return message if isinstance(message, dict) else {}


def _read_stream(reply: httpx2.Response) -> httpx2.AsyncByteStream:
    return cast(httpx2.AsyncByteStream, reply.stream)  # that of an asynchronous transport


async def _read_head(reply: httpx2.Response) -> bytes:
    """Returns the beginning of a body. A body that breaks off or takes too long has none."""
    stream = _read_stream(reply)
    try:
        async with asyncio.timeout(_NOTICE_S):
            return await _read_bytes(aiter(stream))
    except (httpx2.TransportError, TimeoutError):
        return b""
    finally:
        await stream.aclose()


async def _read_bytes(pieces: AsyncIterator[bytes]) -> bytes:
    body = b""
    async for piece in pieces:
        body += piece
        if len(body) > _ERROR_BYTES:
            break
    return body[:_ERROR_BYTES]


def _describe_status(headers: httpx2.Headers, status: int) -> str:
    """Returns the description of an HTTP error. Source: RFC 6750, section 3.1."""
    challenge = headers.get("www-authenticate", "")
    if status == 401:
        return "authorization_expired: the server does not accept the token; a valid one is needed"
    if status == 403 and (scope := _SCOPE.search(challenge)):
        return f"insufficient_scope: the token lacks the scope {scope[1]!r}"
    if status < 400:
        return f"the server answered with {headers.get('content-type', 'no content type')} instead of JSON-RPC"
    return f"the server answered with HTTP status {status}"


def _is_rpc_error(body: bytes) -> bool:
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict) and "code" in message["error"]
