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

TAKES_INPUT: Final = "responses-gateway/takes_input"
"""The key in the metadata of a call by which the declaration passes the library. No server gets it."""

_CAPABILITY: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}


_QUESTION: Final = "elicitation/create"


@asynccontextmanager
async def with_declared_input(
    transport: AbstractAsyncContextManager[Any], note_question: Callable[[Context | None], None]
) -> AsyncGenerator[tuple[Any, Any], None]:
    """Returns a transport for the library that declares what calls with TAKES_INPUT can do.

    `note_question` is called when the server asks by a request of its own, with the context of the call if that is
    known.
    """
    async with transport as (read_stream, write_stream):
        yield _WatchedStream(read_stream, note_question), _DeclaringStream(write_stream)


class _WatchedStream:
    """The stream of messages of a server. It has the interface of those of the library."""

    def __init__(self, stream: Any, note_question: Callable[[Context | None], None]) -> None:
        self._stream = stream
        self._note_question = note_question

    @property
    def last_context(self) -> Context | None:
        """The context in which the last message was received, which the library restores."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._watch(await self._stream.receive())

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> "_WatchedStream":
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._watch(await anext(self._stream))

    def _watch(self, received: SessionMessage | Exception) -> SessionMessage | Exception:
        message = received.message if isinstance(received, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and message.method == _QUESTION:
            self._note_question(self.last_context)
        return received

    async def __aenter__(self) -> "_WatchedStream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(*details)
        return ended


class _DeclaringStream:
    """The stream of messages to a server. It has the interface of those of the library."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def send(self, sent: SessionMessage) -> None:
        await self._stream.send(_declare(sent))

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> "_DeclaringStream":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(*details)
        return ended


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
