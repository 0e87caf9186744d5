"""What the transport finds out about a request, which the library does not pass on."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Final, TypeAlias

import httpx2
import orjson

from gateway.mcp.errors import TOO_LARGE, McpFault, describe_too_large

OnProgress: TypeAlias = Callable[[float, float | None, str | None], None]
"""Is called with the progress of a call, its total if that is known, and a message if there is one."""

_BEGINNING_BYTES: Final = 64 * 1024
"""How much of an answer is kept in case that it is too large."""

_LEFT_OUT_CHARS: Final = 4096
_TEXT: Final = re.compile(rb'"text"\s*:\s*"((?:[^"\\]|\\.)*)')
_CUT_CHARACTER: Final = re.compile(rb"(?:\\u[0-9a-fA-F]{0,3}|[\xc0-\xff][\x80-\xbf]{0,2})$")


class ReplyCut(httpx2.StreamError):
    """The transport stopped reading a reply. The request's record has the reason."""


class ProgressWatchers:
    """Those who watch calls of one session.

    The reports pass the library by: it would start a task for each of them, and a server may send any number.
    """

    def __init__(self) -> None:
        self._watchers: dict[str, OnProgress] = {}
        self._numbers = count(1)

    @contextmanager
    def watch(self, on_progress: OnProgress) -> Iterator[str]:
        """Yields the token by which the server is asked for the progress of a call. It is watched inside of the
        block."""
        token = f"progress-{next(self._numbers)}"
        self._watchers[token] = on_progress
        try:
            yield token
        finally:
            del self._watchers[token]

    def report(self, params: Any) -> None:
        """Takes the `params` of a notification about progress, which a server may have filled with anything."""
        if not isinstance(params, dict):
            return
        token, progress, message = params.get("progressToken"), _read_number(params, "progress"), params.get("message")
        watcher = self._watchers.get(token) if isinstance(token, str) else None
        if watcher is not None and progress is not None:
            watcher(progress, _read_number(params, "total"), message if isinstance(message, str) else None)


class RequestRecord:
    """One request of the protocol, and all HTTP requests that it takes. The transport writes here what goes wrong.

    `fault` is what became of the last HTTP request; None if it was answered. `max_bytes` is the limit of all replies
    together. `result` is what the requester waits for; None if nobody does. `is_of_session` is whether it is that of a
    whole session: of its handshake, and of the stream on which the server talks unasked. `watchers` are those of the
    session's calls.
    """

    def __init__(
        self,
        max_bytes: int,
        result: asyncio.Future[Any] | None = None,
        *,
        is_of_session: bool = False,
        watchers: ProgressWatchers | None = None,
    ) -> None:
        self.is_of_session = is_of_session
        self.watchers = watchers
        self.fault: McpFault | None = None
        self.has_failed = False
        self.has_declined_input = False
        """Whether the server asked for input by a request of its own, which was declined."""
        self.request_id: Any = None
        """The id of the last message that was sent and is to be answered; None before it, and where answers to several
        come over one stream."""
        self._max_bytes = max_bytes
        self._size = 0
        self._beginning = bytearray()
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

    def take_bytes(self, piece: bytes) -> None:
        """Counts bytes of a reply. Raises ReplyCut if they are too many; the request has then failed."""
        self._size += len(piece)
        self._beginning += piece[: _BEGINNING_BYTES - len(self._beginning)]
        self.check_bytes(0)

    def check_bytes(self, held: int) -> None:
        """Raises ReplyCut if the replies are too large with `held` more bytes, which are not counted yet."""
        if self._size + held > self._max_bytes:
            message = describe_too_large(self._max_bytes)
            self.fail(McpFault(TOO_LARGE, message, beginning=read_beginning(bytes(self._beginning))))
            raise ReplyCut(message)


current_record: ContextVar[RequestRecord | None] = ContextVar("current_record", default=None)
"""The record of the request that runs. The library sends HTTP requests in the context of the request they are for."""


def read_beginning(body: bytes) -> str:
    """Returns the beginning of the first text in the beginning of an answer, which is cut somewhere; empty without one.

    Its own end is left out, because it may be the beginning of a credential that could no longer be recognized.
    """
    found = _TEXT.search(body)
    if found is None:
        return ""
    try:
        text: str = orjson.loads(b'"' + _CUT_CHARACTER.sub(b"", found[1]) + b'"')
    except orjson.JSONDecodeError:
        return ""
    return text[:-_LEFT_OUT_CHARS]


def _read_number(params: dict[str, Any], name: str) -> float | None:
    value = params.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
