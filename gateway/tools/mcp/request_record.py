"""Records of requests: facts that the transport observes, and that the library does not report."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, Final

import httpx2
import orjson

from gateway.tools.executors.executor import OnProgress
from gateway.tools.mcp.errors import TOO_LARGE, McpFault, describe_too_large
from translation.hosted.bounds import AnswerLimits

_BEGINNING_BYTES: Final = 64 * 1024
"""The bytes of a reply that are buffered, for the message if it is too large."""

_LEFT_OUT_CHARS: Final = 4096
_TEXT: Final = re.compile(rb'"text"\s*:\s*"((?:[^"\\]|\\.)*)')
_CUT_CHARACTER: Final = re.compile(rb"(?:\\u[0-9a-fA-F]{0,3}|[\xc0-\xff][\x80-\xbf]{0,2})$")


class ReplyAborted(httpx2.StreamError):
    """The transport stopped reading a reply. The record of the request has the reason."""


class ProgressWatchers:
    """Callbacks that receive the progress of the calls of one session.

    The library does not see the reports: it would start a task for each of them, and a server may send any number.
    """

    def __init__(self) -> None:
        self._watchers: dict[str, OnProgress] = {}
        self._numbers = count(1)

    @contextmanager
    def watch(self, on_progress: OnProgress) -> Iterator[str]:
        """Yields the token for the progress of one call. `on_progress` is called until the block ends."""
        token = f"progress-{next(self._numbers)}"
        self._watchers[token] = on_progress
        try:
            yield token
        finally:
            del self._watchers[token]

    def report(self, params: Any) -> None:
        """Reports the `params` of a progress notification. They are not validated before."""
        if not isinstance(params, dict):
            return
        token, progress, message = params.get("progressToken"), _read_number(params, "progress"), params.get("message")
        watcher = self._watchers.get(token) if isinstance(token, str) else None
        if watcher is not None and progress is not None:
            watcher(progress, _read_number(params, "total"), message if isinstance(message, str) else None)


class RequestRecord:
    """One request of the protocol, and all HTTP requests that it takes. The transport records failures here.

    `fault` says why the last HTTP request failed; None if it was answered. `limits` bound all replies together.
    `result` is the future that the requester awaits; None without a requester. `is_of_session`: the record belongs to a
    whole session, that is to its handshake and to the stream for messages that the server starts. `watchers` get the
    progress of the session's calls.
    """

    def __init__(
        self,
        limits: AnswerLimits,
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
        """The id of the last message that needs an answer; None before it, and if one stream carries the answers to
        several messages."""
        self.limits = limits
        self._size = 0
        self._beginning = bytearray()
        self._result = result

    def create_stream_record(self) -> "RequestRecord":
        """Returns a record for a stream that lasts as long as the session, so that its bytes are counted apart."""
        return RequestRecord(self.limits)

    def fail(self, fault: McpFault) -> None:
        """Ends the request now, although the library might try again."""
        self.fault = fault
        self.has_failed = True
        if self._result is not None and not self._result.done():
            self._result.set_exception(fault)
            self._result.exception()  # the requester may have left

    def count_bytes(self, piece: bytes) -> None:
        """Counts bytes of a reply. Raises ReplyAborted, after the request has failed, if they are too many."""
        self._size += len(piece)
        self._beginning += piece[: _BEGINNING_BYTES - len(self._beginning)]
        self.check_bytes(0)

    def check_bytes(self, held: int) -> None:
        """Raises ReplyAborted if the replies are too large with `held` further bytes."""
        if self._size + held > self.limits.max_bytes:
            message = describe_too_large(self.limits.max_bytes)
            self.fail(McpFault(TOO_LARGE, message, beginning=read_beginning(bytes(self._beginning))))
            raise ReplyAborted(message)


current_record: ContextVar[RequestRecord | None] = ContextVar("current_record", default=None)
"""The record of the running request. The library sends HTTP requests in the context of their request."""


def read_beginning(body: bytes) -> str:
    """Returns the beginning of the first text in a cut answer; empty without a text.

    Its last characters are left out, because they may be part of a credential that would not be recognized.
    """
    match = _TEXT.search(body)
    if match is None:
        return ""
    try:
        text: str = orjson.loads(b'"' + _CUT_CHARACTER.sub(b"", match[1]) + b'"')
    except orjson.JSONDecodeError:
        return ""
    return text[:-_LEFT_OUT_CHARS]


def _read_number(params: dict[str, Any], name: str) -> float | None:
    value = params.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
