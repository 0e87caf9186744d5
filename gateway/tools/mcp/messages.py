"""Names of methods of the protocol, and the streams of messages between a transport and the library.

Source of the names: the Model Context Protocol, revisions 2025-06-18 and 2026-07-28.
"""

from abc import ABC, abstractmethod
from contextvars import Context
from typing import Any, Final, Self

from mcp.shared.message import SessionMessage

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
SUBSCRIBED: Final = "notifications/subscriptions/acknowledged"
CALL_CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
ELICIT: Final = "elicitation/create"


class MessageStream:
    """A stream with the interface of the library's streams, around another one."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(*details)
        return ended


class ServerMessages(MessageStream, ABC):
    """The stream of messages of a server. Each passes `filter_message` before the library gets it."""

    @abstractmethod
    async def filter_message(self, received: SessionMessage | Exception) -> SessionMessage | Exception | None:
        """Returns the message for the library; None to withhold it."""

    @property
    def last_context(self) -> Context | None:
        """The context in which the last message was received, which the library restores."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while (passed := await self.filter_message(await self._stream.receive())) is None:
            pass
        return passed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while (passed := await self.filter_message(await anext(self._stream))) is None:
            pass
        return passed
