"""Tells an MCP server, call by call, whether it may ask the user for input (the capability `elicitation`).

The MCP library declares this capability for a whole session or not at all. One session of the gateway serves many
clients, and only some of them can answer such a request. Since the revision 2026-07-28 of MCP every request names the
capabilities of its client, so this module adds the capability to the calls of clients that can answer. Servers of older
revisions send a request for input while a call is open. The library declines it, and this module reports that.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from typing import Any, Final

from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest

from gateway.tools.mcp.messages import ELICIT, MessageStream, ServerMessages

TAKES_INPUT: Final = "responses-gateway/takes_input"
"""The key in the metadata of a call that carries the declaration through the library. Servers never get it."""

_CAPABILITY: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}


@asynccontextmanager
async def with_declared_input(
    transport: AbstractAsyncContextManager[Any], report_input_request: Callable[[Context | None], None]
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Yields a transport for the library that declares the capability in calls with TAKES_INPUT.

    `report_input_request` is called when the server sends a request of its own for input, with the context of the call
    if it is known.
    """
    async with transport as (read_stream, write_stream):
        yield _WatchedMessages(read_stream, report_input_request), _DeclaringMessages(write_stream)


class _WatchedMessages(ServerMessages):
    """The messages of a server. Its requests for input are reported."""

    def __init__(self, stream: Any, report_input_request: Callable[[Context | None], None]) -> None:
        super().__init__(stream)
        self._report_input_request = report_input_request

    async def filter_message(self, received: SessionMessage | Exception) -> SessionMessage | Exception:
        message = received.message if isinstance(received, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and message.method == ELICIT:
            self._report_input_request(self.last_context)
        return received


class _DeclaringMessages(MessageStream):
    """The messages to a server. Calls declare the capabilities of their clients."""

    async def send(self, sent: SessionMessage) -> None:
        await self._stream.send(_declare(sent))


def _declare(sent: SessionMessage) -> SessionMessage:
    message = sent.message
    if not isinstance(message, JSONRPCRequest) or TAKES_INPUT not in (
        meta := (message.params or {}).get("_meta") or {}
    ):
        return sent
    meta = {key: value for key, value in meta.items() if key != TAKES_INPUT}
    if CLIENT_CAPABILITIES_META_KEY in meta:  # an older server learned them when the session began
        meta[CLIENT_CAPABILITIES_META_KEY] = {**meta[CLIENT_CAPABILITIES_META_KEY], **_CAPABILITY}
    params = {**(message.params or {}), "_meta": meta}
    return SessionMessage(message.model_copy(update={"params": params}), sent.metadata)
