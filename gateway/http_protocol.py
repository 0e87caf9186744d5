"""uvicorn's HTTP protocol, with ways past its coroutines: for pieces of a reply, and to hear of a client that left."""

from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

BODY_WRITER: Final = "gateway.body_writer"
"""Scope key of a request's `BodyWriter`; other servers have none."""

LEAVING: Final = "gateway.leaving"
"""Scope key of a request's `Leaving`; other servers have none, nor has a request sent before the last was answered."""


class BodyWriter:
    """Writes pieces of one reply's body. The reply's head has been sent, without a length, and its end has not."""

    __slots__ = ("_cycle", "_flow", "_write")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._flow = cycle.flow
        self._write = cycle.transport.write

    def write(self, piece: bytes) -> bool:
        """Send a piece, which is not empty, now. False where its reader is not ready: then it has to be sent."""
        if self._flow.write_paused or self._cycle.disconnected:
            return False
        self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return True


class Leaving:
    """Whether the client of one request has hung up."""

    __slots__ = ("_flow", "_left", "_tell")

    def __init__(self, flow: FlowControl) -> None:
        self._flow = flow
        self._left = False
        self._tell: Callable[[], None] | None = None

    def watch(self, tell: Callable[[], None] | None) -> None:
        """Call `tell` when the client hangs up, now if it has; None: no longer."""
        self._tell = tell
        # What was read of a large body may have paused it, and who does not read does not hear of an end.
        self._flow.resume_reading()
        if self._left and tell is not None:
            tell()

    def happened(self) -> None:
        self._left = True
        if self._tell is not None:
            self._tell()


class HttpProtocol(HttpToolsProtocol):
    """Gives each request its BodyWriter, and its Leaving unless it waits behind another on the connection."""

    _leaving: Leaving | None = None

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope:
            return
        scope: dict[str, object] = self.scope  # type: ignore[assignment]
        scope[BODY_WRITER] = BodyWriter(cycle)
        if not self.pipeline:
            self._leaving = scope[LEAVING] = Leaving(self.flow)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._leaving is not None:
            self._leaving.happened()
