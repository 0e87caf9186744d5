"""One session with an MCP server. A task of its own owns the session, and requests reach it through a queue.

The library's cancel scopes must be left in the task that entered them, so no other task may own them.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from contextvars import Context
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import structlog
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from dataplane.sharing.fair_turns import current_owner
from gateway.tools.mcp.answers import read_refusal
from gateway.tools.mcp.bounded_body import CONNECTION_CLOSED
from gateway.tools.mcp.elicitation.declaration import with_declared_input
from gateway.tools.mcp.errors import NOT_THE_PROTOCOL, SESSION_LOST, McpFault
from gateway.tools.mcp.request_record import ProgressWatchers, RequestRecord, current_record
from gateway.tools.mcp.server import McpServer
from gateway.tools.mcp.tool_lists import with_readable_messages
from gateway.tools.mcp.transports import make_transport
from providers.egress import EgressClient

_log = structlog.get_logger(__name__)

logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs texts of servers, which may quote credentials

_T = TypeVar("_T")
SendRequest: TypeAlias = Callable[[Client], Awaitable[_T]]
_Request: TypeAlias = tuple[SendRequest[Any], asyncio.Future[Any], str]
"""An entry of the queue: the function that sends a request, the future of its result, and the owner of the request."""

_QUEUE_SIZE: Final = 64
_CLOSE_S: Final = 3.0
"""Enough for two messages that the server does not answer: a cancellation, and the end of the session."""

_MIN_PAUSE_S: Final = 1.0
_MAX_PAUSE_S: Final = 60.0
"""The pause between two subscriptions to changes."""

_MESSAGE_CHARS: Final = 4000
"""The longest message of a JSON-RPC error."""

_READ_CHARS: Final = 64 * 1024
"""The characters of a message from which credentials are removed. Only `_MESSAGE_CHARS` of them are used, so that no
credential is among those which was cut off at the end."""

_CLOSED_MESSAGES: Final = ("Connection closed", "SSE stream ended")
_SESSION: Final = re.compile(r"\bsession\b", re.IGNORECASE)
_LOST: Final = re.compile(r"\b(terminated|expired|not found|unknown|invalid)\b", re.IGNORECASE)
_NO_SESSION: Final = re.compile("no valid session", re.IGNORECASE)
_LOST_SESSION_CODES: Final = (-32600, -32001, -32000)
"""Codes of errors about an unknown session, besides HTTP status 404. Source: the official SDKs and examples."""

_MIN_CODE: Final = -(2**63)
_MAX_CODE: Final = 2**63 - 1
"""Codes beyond 64 bits cannot be passed on."""

_UNREADABLE_MESSAGES: Final = ("Failed to parse JSON response", "Failed to parse SSE message")
"""Beginnings of the library's own messages about a lost connection, and about an answer that breaks the protocol."""


class McpSession:
    """A session that opens at once. Requests may run at the same time; each raises McpFault, and can be cancelled.

    `report_change` is called when the server reports a change of its list of tools; None ignores such reports.
    """

    def __init__(
        self, server: McpServer, egress: EgressClient, report_change: Callable[[], None] | None = None
    ) -> None:
        self._server = server
        self._report_change = report_change
        self._watchers = ProgressWatchers()
        self._transport = make_transport(server, egress, report_change or _ignore_change, self._watchers.report)
        self._queue: asyncio.Queue[_Request | None] = asyncio.Queue(_QUEUE_SIZE)
        self._fault: McpFault | None = None
        self._is_open = False
        self._is_terminated = False
        """Whether the server said that it no longer knows the session."""
        self._records: set[RequestRecord] = set()
        """The records of the running requests."""
        self._ready_event = asyncio.Event()
        self._owner = asyncio.get_running_loop().create_task(self._run_session())

    @property
    def is_usable(self) -> bool:
        """Whether requests can be sent. A session that is not has to be closed and replaced."""
        return not (self._owner.done() or self._transport.is_lost or self._is_terminated)

    @property
    def last_output(self) -> str:
        """The end of the standard error of a server with a command."""
        return self._transport.last_output

    async def wait_until_open(self) -> None:
        """Waits for the end of the handshake. Raises McpFault if there is no connection."""
        await self._ready_event.wait()
        if not self._is_open:
            raise self._fault or McpFault("connection_closed", CONNECTION_CLOSED)

    async def request(self, send: SendRequest[_T], deadline_s: float) -> _T:
        """Sends one request once. Raises McpFault, also if it takes longer than the deadline."""
        result: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(deadline_s):
                await self._queue.put((send, result, current_owner.get()))
                waited: set[asyncio.Future[Any]] = {result, self._owner}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if not result.done():
                    raise self._fault or McpFault("connection_closed", CONNECTION_CLOSED)
                return result.result()
        except TimeoutError:
            # What is left of a deadline after a wait for a turn is no round number.
            raise McpFault("timeout", f"no answer within {round(deadline_s, 2):g} s") from None
        finally:
            result.cancel()

    async def close(self) -> None:
        """Ends the session in order: requests are cancelled at the server first. It takes a few seconds at most."""
        try:
            if self._is_open and not self._queue.full():
                self._queue.put_nowait(None)
                await asyncio.wait({self._owner}, timeout=_CLOSE_S)
        finally:
            while not self._owner.done():
                self._owner.cancel()
                await asyncio.wait({self._owner}, timeout=_CLOSE_S)

    async def _run_session(self) -> None:
        """Opens the session, and runs the requests in the queue until `close`."""
        server = self._server
        record = RequestRecord(server.limits, is_of_session=True)
        current_record.set(record)
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(server.connect_deadline_s):
                    client = await self._open(stack)
                self._is_open = True
                self._ready_event.set()
                async with asyncio.TaskGroup() as tasks:
                    listener = tasks.create_task(self._listen(client)) if self._report_change is not None else None
                    while (request := await self._queue.get()) is not None:
                        send, result, owner = request
                        if not result.done():
                            task = tasks.create_task(self._serve(client, send, result, owner))
                            result.add_done_callback(partial(_cancel_task, task))
                    if listener is not None:
                        listener.cancel()
        except TimeoutError:
            self._fault = McpFault("timeout", f"no connection within {server.connect_deadline_s:g} s")
        except Exception as error:
            self._fault = record.fault or self._build_fault(error)
        finally:
            self._ready_event.set()

    async def _open(self, stack: AsyncExitStack) -> Client:
        readable = with_readable_messages(await self._transport.enter(stack), self._server.limits)
        transport = with_declared_input(readable, self._record_input_request)
        return await stack.enter_async_context(Client(transport, cache=None))

    def _record_input_request(self, context: Context | None) -> None:
        """Records that the server asked for input, which was declined.

        Some transports do not tell for which call. The request is then assigned only if a single call is running, so
        that calls of other clients are not reported.
        """
        record = None if context is None else context.get(current_record)
        if record is None or record.is_of_session:
            if len(self._records) != 1:
                _log.info("mcp_input_request_unassigned", server=self._server.label, calls=len(self._records))
                return
            (record,) = self._records
        record.has_declined_input = True

    async def _listen(self, client: Client) -> None:
        """Keeps a subscription to changes of the list of tools open, if the server needs one to report them.

        The transport handles the reports. Changes without a subscription are not reported, so the list counts as
        changed when a new subscription begins.
        """
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        pause_s = _MIN_PAUSE_S
        while True:
            current_record.set(RequestRecord(self._server.limits))
            began = time.monotonic()
            try:
                async with client.listen(tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        pass
            except (MCPError, RuntimeError, ValidationError) as error:
                _log.info("mcp_subscription_ended", server=self._server.label, error=type(error).__name__)
                if isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND:
                    return
            if self._transport.is_lost:
                return
            is_lasting = time.monotonic() - began > _MAX_PAUSE_S
            pause_s = _MIN_PAUSE_S if is_lasting else min(2 * pause_s, _MAX_PAUSE_S)
            await asyncio.sleep(pause_s)
            if self._report_change is not None:
                self._report_change()

    async def _serve(self, client: Client, send: SendRequest[Any], result: asyncio.Future[Any], owner: str) -> None:
        current_owner.set(owner)
        record = RequestRecord(self._server.limits, result, watchers=self._watchers)
        current_record.set(record)
        self._records.add(record)
        try:
            value = await send(client)
        except Exception as error:
            fault = record.fault or self._build_fault(error)
            fault.has_declined_input = record.has_declined_input
            record.fail(fault)
        else:
            if not result.done():
                result.set_result(value)
        finally:
            self._records.discard(record)

    def _build_fault(self, error: BaseException) -> McpFault:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, McpFault):
            return error
        if isinstance(error, MCPError):
            message = error.message[:_READ_CHARS]
            if message.startswith(_CLOSED_MESSAGES):
                return McpFault("connection_closed", CONNECTION_CLOSED)
            if (refused := read_refusal(message)) is not None:
                return McpFault(refused.kind, self._scrub(str(refused)))
            if error.code in _LOST_SESSION_CODES and _is_about_lost_session(message[:_MESSAGE_CHARS]):
                self._is_terminated = True
                return McpFault("session_lost", SESSION_LOST)
            if not message.startswith(_UNREADABLE_MESSAGES):
                code = error.code if _MIN_CODE <= error.code <= _MAX_CODE else None
                return McpFault("protocol_error", self._scrub(message), code=code)
        elif not isinstance(error, ValidationError):
            # Without its text, which may quote the server.
            _log.warning("mcp_request_failed", server=self._server.label, error=type(error).__name__)
        return McpFault("invalid_result", NOT_THE_PROTOCOL)

    def _scrub(self, text: str) -> str:
        return self._server.scrub(text)[:_MESSAGE_CHARS]


def _is_about_lost_session(message: str) -> bool:
    """Whether an error says that the server no longer knows the session. Each expression is searched once."""
    session = _SESSION.search(message)
    lost = session is not None and _LOST.search(message, session.end())
    return bool(lost or _NO_SESSION.search(message))


def _ignore_change() -> None: ...


def _cancel_task(task: asyncio.Task[None], _: asyncio.Future[Any]) -> None:
    task.cancel()
