"""An MCP server in a child process, over its standard input and output. It is limited, and ended with its children.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from gateway.tools.mcp.answers import refuse_unread, serialize_value, weigh_message
from gateway.tools.mcp.bounded_body import run_for_size
from gateway.tools.mcp.child_processes import end_orphans, end_process, release_process
from gateway.tools.mcp.errors import TOO_LARGE, McpFault, describe_too_large
from gateway.tools.mcp.event_frames import cut_byte_order_mark, read_message
from gateway.tools.mcp.messages import PROGRESS, SUBSCRIBED, TOOLS_CHANGED
from gateway.tools.mcp.server import MAX_DROPPED, MAX_OWN_REQUESTS, MINUTE_S, PROBE_S, StdioCommand
from translation.hosted.bounds import AnswerLimits

_READ_BYTES: Final = 64 * 1024
_STDERR_BYTES: Final = 8 * 1024
"""The size of the end of the standard error that is kept."""

_DRAIN_S: Final = 1.0
"""The longest wait for the rest of the output after the server has ended."""

_OBJECT_LINE: Final = re.compile(rb"^[ \t\r]*+\{.*", re.MULTILINE)
"""A line that may be a message."""

_BLANKS: Final = b" \t\r"

_TURN_LINES: Final = 200
"""So many lines that are no messages are read in a millisecond. Then others have their turn."""

_DISCOVER: Final = "server/discover"

_Message = SessionMessage | Exception
_Pipe = TypeVar("_Pipe", asyncio.StreamReader, asyncio.StreamWriter)


class StdioTransport:
    """A server that is started when the library enters the transport, and ended when it leaves."""

    def __init__(
        self,
        command: StdioCommand,
        limits: AnswerLimits,
        scrub: Callable[[str], str],
        report_change: Callable[[], None],
        report_progress: Callable[[Any], None],
    ) -> None:
        self.is_lost = False
        self._command = command
        self._limits = limits
        self._weigh = partial(weigh_message, limits=limits)
        self._scrub = scrub
        self._report_change = report_change
        self._report_progress = report_progress
        self._stderr = b""
        self._minute_began = 0.0
        self._requests = 0
        self._notifications = 0
        self._probe_ids: set[Any] = set()
        self._readers_ended = anyio.Event()

    @property
    def last_output(self) -> str:
        """The end of the server's standard error, without credentials."""
        return self._scrub(self._stderr.decode(errors="replace"))

    async def enter(self, _: AsyncExitStack) -> AbstractAsyncContextManager[Any]:
        """Returns the transport for the library."""
        return self._connect()

    @asynccontextmanager
    async def _connect(self) -> AsyncGenerator[tuple[Any, Any], None]:
        """Raises McpFault if the command cannot be started."""
        command = self._command
        try:
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**get_default_environment(), **command.env},
                cwd=command.cwd,
                start_new_session=True,  # a process group of its own, so that its children can be ended too
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise McpFault("connection_closed", f"the command cannot be started: {reason}") from None
        messages, received = anyio.create_memory_object_stream[_Message](0)
        sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, messages)
                tasks.start_soon(self._write_stdin, process, outgoing, messages, tasks)
                tasks.start_soon(end_orphans, process)
                try:
                    yield received, sent
                finally:
                    self.is_lost = True
                    received.close()
                    with anyio.CancelScope(shield=True):
                        await end_process(process)
                        with anyio.move_on_after(_DRAIN_S):
                            await self._readers_ended.wait()
                    tasks.cancel_scope.cancel()
        finally:
            release_process(process)
            for stream in (messages, received, sent, outgoing):
                stream.close()

    async def _read(self, process: asyncio.subprocess.Process, messages: MemoryObjectSendStream[_Message]) -> None:
        """Reads both outputs to their ends, which come when all processes that hold them have ended."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read_stdout, process, messages)
            tasks.start_soon(self._read_stderr, process)
        self._readers_ended.set()

    async def _read_stdout(
        self, process: asyncio.subprocess.Process, messages: MemoryObjectSendStream[_Message]
    ) -> None:
        stdout = _require_pipe(process.stdout)
        line = bytearray()
        is_skipping = False
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            async with messages:
                piece = await _read_beginning(stdout)
                while piece:
                    end = piece.rfind(b"\n") + 1
                    if end:
                        ended = piece[piece.find(b"\n") : end] if is_skipping else bytes(line) + piece[:end]
                        await self._forward_lines(ended, messages)
                        line.clear()
                        is_skipping = False
                    if not is_skipping:
                        line += piece[end:] if line else piece[end:].lstrip(_BLANKS)
                    if line and not line.startswith(b"{"):  # it would be searched through byte by byte
                        line.clear()
                        is_skipping = True
                    if len(line) > self._limits.max_bytes:
                        await self._refuse_line(bytes(line), messages, is_whole=False)
                        line.clear()
                        is_skipping = True
                    piece = await stdout.read(_READ_BYTES)
        self.is_lost = True
        while await stdout.read(_READ_BYTES):
            pass  # a server that cannot write its output does not end

    async def _forward_lines(self, lines: bytes, messages: MemoryObjectSendStream[_Message]) -> None:
        """Forwards the messages in whole lines. Other lines are ignored, because many servers print to their output."""
        for number, match in enumerate(_OBJECT_LINE.finditer(lines), 1):
            await self._forward_line(match[0], messages)
            if number % _TURN_LINES == 0:  # nothing else waits for others if none of the lines is a message
                await asyncio.sleep(0)

    async def _forward_line(self, line: bytes, messages: MemoryObjectSendStream[_Message]) -> None:
        """Forwards a message to the library. A large one is read in a thread, and later ones wait for it."""
        if len(line) > self._limits.max_bytes:
            await self._refuse_line(line, messages)
            return
        size = len(line)
        try:
            line, message = await run_for_size(size, read_message, [line], self._weigh)
        except McpFault as fault:
            await self._refuse_line(line, messages, fault)
            return
        if message is None or ("method" in message and not self._passes(message)):
            return
        if "method" not in message and isinstance(message["id"], str | int):
            self._probe_ids.discard(message["id"])
        try:
            parsed = await run_for_size(size, _validate_line, line)
        except ValueError as error:
            await messages.send(error)
            return
        await messages.send(SessionMessage(parsed))

    def _passes(self, message: dict[str, Any]) -> bool:
        """Whether the library gets this notification or request of the server. Requests over the limit are dropped."""
        now = time.monotonic()
        if now - self._minute_began > MINUTE_S:
            self._minute_began, self._requests, self._notifications = now, 0, 0
        if "id" not in message:
            self._notifications += 1
            if self._notifications > MAX_DROPPED:
                return False
            if message["method"] == TOOLS_CHANGED:
                self._report_change()
            elif message["method"] == PROGRESS:
                self._report_progress(message.get("params"))
            return bool(message["method"] == SUBSCRIBED)
        self._requests += 1
        return self._requests <= MAX_OWN_REQUESTS

    async def _refuse_line(
        self,
        line: bytes,
        messages: MemoryObjectSendStream[_Message],
        fault: McpFault | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        """Ends the request whose answer is too large. If the request is unknown, the connection ends."""
        fault = fault or McpFault(TOO_LARGE, describe_too_large(self._limits.max_bytes))
        try:
            refusal = refuse_unread(line, fault, is_whole=is_whole)
        except McpFault:
            self.is_lost = True
            await messages.aclose()
            return
        if refusal is not None:
            await messages.send(refusal)

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        stderr = _require_pipe(process.stderr)
        while piece := await stderr.read(_READ_BYTES):
            self._stderr = (self._stderr + piece)[-_STDERR_BYTES:]

    async def _write_stdin(
        self,
        process: asyncio.subprocess.Process,
        outgoing: MemoryObjectReceiveStream[SessionMessage],
        messages: MemoryObjectSendStream[_Message],
        tasks: Any,
    ) -> None:
        stdin = _require_pipe(process.stdin)
        async with outgoing:
            try:
                async for sent in outgoing:
                    message = sent.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                    stdin.write(serialize_value(message).encode() + b"\n")
                    await stdin.drain()
                    if message.get("method") == _DISCOVER:
                        tasks.start_soon(self._end_probe, message["id"], messages)
            except (ConnectionError, RuntimeError):  # the pipe is closed
                self.is_lost = True
                messages.close()

    async def _end_probe(self, request_id: Any, messages: MemoryObjectSendStream[_Message]) -> None:
        """Answers the probe of the protocol's version for a server that does not answer it."""
        self._probe_ids.add(request_id)
        await anyio.sleep(PROBE_S)
        if request_id in self._probe_ids:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await messages.send(_error_reply(request_id, mcp_types.METHOD_NOT_FOUND, "no answer"))


async def _read_beginning(stdout: asyncio.StreamReader) -> bytes:
    """Returns the first bytes of an output, without a byte order mark."""
    begun = b""
    while piece := await stdout.read(_READ_BYTES):
        begun += piece
        if (rest := cut_byte_order_mark(begun)) is not None:
            return rest or await stdout.read(_READ_BYTES)
    return begun


def _require_pipe(pipe: _Pipe | None) -> _Pipe:
    """Returns a pipe of a process that was started with all three."""
    if pipe is None:
        raise McpFault("connection_closed", "the command has no pipes")
    return pipe


def _validate_line(line: bytes) -> mcp_types.JSONRPCMessage:
    return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)  # it keeps all digits


def _error_reply(request_id: Any, code: int, message: str) -> SessionMessage:
    error = mcp_types.ErrorData(code=code, message=message)
    return SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
