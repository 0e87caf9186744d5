"""What the transport finds out about a request, which the library does not pass on."""

import asyncio
from contextvars import ContextVar
from typing import Any

import httpx2

from gateway.mcp.errors import TOO_LARGE, McpFault, describe_too_large


class ReplyCut(httpx2.StreamError):
    """The transport stopped reading a reply. The request's record has the reason."""


class RequestRecord:
    """One request of the protocol, and all HTTP requests that it takes. The transport writes here what goes wrong.

    `fault` is what became of the last HTTP request; None if it was answered. `max_bytes` is the limit of all replies
    together. `result` is what the requester waits for; None if nobody does. `is_of_session` is whether it is that of a
    whole session: of its handshake, and of the stream on which the server talks unasked.
    """

    def __init__(
        self, max_bytes: int, result: asyncio.Future[Any] | None = None, *, is_of_session: bool = False
    ) -> None:
        self.is_of_session = is_of_session
        self.fault: McpFault | None = None
        self.has_failed = False
        self._max_bytes = max_bytes
        self._size = 0
        self._result = result

    def for_stream(self) -> "RequestRecord":
        """Returns the record of a stream that lasts as long as the session, whose bytes are not counted together."""
        return RequestRecord(self._max_bytes)

    def fail(self, fault: McpFault) -> None:
        """Ends the request now, whatever the library would still try."""
        self.fault = fault
        self.has_failed = True
        if self._result is not None and not self._result.done():
            self._result.set_exception(fault)
            self._result.exception()  # the requester may have left

    def count_bytes(self, count: int) -> None:
        """Counts bytes of a reply. Raises ReplyCut if they are too many; the request has then failed."""
        self._size += count
        self.check_bytes(0)

    def check_bytes(self, held: int) -> None:
        """Raises ReplyCut if the replies are too large with `held` more bytes, which are not counted yet."""
        if self._size + held > self._max_bytes:
            message = describe_too_large(self._max_bytes)
            self.fail(McpFault(TOO_LARGE, message))
            raise ReplyCut(message)


current_record: ContextVar[RequestRecord | None] = ContextVar("current_record", default=None)
"""The record of the request that runs. The library sends HTTP requests in the context of the request they are for."""
