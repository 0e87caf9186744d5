"""The ids of the request that is being served: the gateway's own, and that of the upstream which replies to it.

An operator who has one of them finds the same request in the logs of the other server.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, Protocol

REQUEST_ID_HEADER: Final = "x-request-id"

MAX_ID_CHARS: Final = 128

_UPSTREAM_ID_HEADERS: Final = (b"x-request-id", b"request-id", b"apim-request-id", b"x-amzn-requestid")
"""The headers in which upstreams send the ids of their own logs. `request-id` is Anthropic's, the last two are those of
Azure and AWS."""


_SERVED_BY_HEADER: Final = b"x-gateway-destination-endpoint-served"
"""The header in which a router of inference pools names the server that it chose."""

_READ_HEADERS: Final = frozenset({*_UPSTREAM_ID_HEADERS, _SERVED_BY_HEADER})


class HttpTrace(Protocol):
    """Records the HTTP requests to upstreams that one request causes. Its methods must neither wait nor raise."""

    def begin_http(self, url: str, *, sends_context: bool) -> bytes:
        """A request to this URL begins. Returns the header lines of its trace, none without `sends_context`."""
        ...

    def end_http(self, status: int | None) -> None:
        """The head of its reply has arrived, with this status; None if the request failed before."""
        ...


class RequestIds:
    """`own` is sent to the upstream. `upstream` is set once an upstream has replied; it is empty if it sent none."""

    __slots__ = ("own", "served_by", "trace", "upstream")

    def __init__(self, own: str) -> None:
        self.own = own
        self.upstream = ""
        self.served_by = ""
        """The server behind the upstream that replied, if the upstream names it."""
        self.trace: HttpTrace | None = None
        """The trace of the request; None while traces are off."""

    def list_log_fields(self) -> dict[str, str]:
        """Returns the fields of the request's log line that come from the upstream's reply."""
        fields = {"upstream_request_id": self.upstream, "served_by": self.served_by}
        return {name: value for name, value in fields.items() if value}

    def build_header_line(self) -> bytes:
        """Returns the header of a request to an upstream, with its line end."""
        return b"x-request-id: %s\r\n" % self.own.encode()

    def read_upstream_id(self, headers: Mapping[bytes, bytes]) -> None:
        """Reads the id of an upstream's reply, whose header names are in lower case.

        With several upstream requests the newest reply counts. An id that only repeats ours counts if it is the only
        one.
        """
        self.upstream = self.served_by = ""
        if _READ_HEADERS.isdisjoint(headers):
            return
        self.served_by = parse_request_id(headers.get(_SERVED_BY_HEADER, b"")) or ""
        for name in _UPSTREAM_ID_HEADERS:
            if (header := headers.get(name)) is not None and (text := parse_request_id(header)) is not None:
                self.upstream = text
                if text != self.own:
                    return


def split_header_lines(lines: bytes) -> dict[str, str]:
    """Returns the names and values of header lines, such as those of `HttpTrace.begin_http`."""
    pairs = (line.partition(": ") for line in lines.decode("latin-1").splitlines())
    return {name: value for name, _, value in pairs}


CURRENT_IDS: ContextVar[RequestIds | None] = ContextVar("current_ids", default=None)
"""The ids of the request that this context serves. All tasks of one request share the object."""


def parse_request_id(header: bytes) -> str | None:
    """Returns an id that may be logged and sent on; None unless it is printable ASCII of at most 128 characters."""
    if not header or len(header) > MAX_ID_CHARS or not header.isascii():
        return None
    text = header.decode()
    return text if text.isprintable() else None
