"""Declares in single calls that their client can be asked for input, and notes which calls asked in vain.

The library declares that for a whole session, or not at all; and one session serves clients of both kinds. In the
revision 2026-07-28 each request has the capabilities of its own client, so they are changed on their way out. Servers
of older revisions ask by a request of their own while the call is open; the library answers that nobody takes it.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from typing import Any, Final

from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest

from gateway.mcp.messages import ELICIT, MessageStream, ServerMessages

TAKES_INPUT: Final = "responses-gateway/takes_input"
"""The key in the metadata of a call by which the declaration passes the library. No server gets it."""

_CAPABILITY: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}


@asynccontextmanager
async def with_declared_input(
    transport: AbstractAsyncContextManager[Any], note_question: Callable[[Context | None], None]
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Returns a transport for the library that declares what calls with TAKES_INPUT can do.

    `note_question` is called when the server asks by a request of its own, with the context of the call if that is
    known.
    """
    async with transport as (read_stream, write_stream):
        yield _WatchedMessages(read_stream, note_question), _DeclaringMessages(write_stream)


class _WatchedMessages(ServerMessages):
    """The messages of a server, among which questions are noted."""

    def __init__(self, stream: Any, note_question: Callable[[Context | None], None]) -> None:
        super().__init__(stream)
        self._note_question = note_question

    async def filter_message(self, received: SessionMessage | Exception) -> SessionMessage | Exception:
        message = received.message if isinstance(received, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and message.method == ELICIT:
            self._note_question(self.last_context)
        return received


class _DeclaringMessages(MessageStream):
    """The messages to a server, which declare what their calls can do."""

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
