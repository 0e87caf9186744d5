"""uvicorn's HTTP protocol, and a way past its coroutine for the pieces of a streamed reply."""

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

BODY_WRITER: Final = "gateway.body_writer"
"""Scope key of a request's `BodyWriter`; other servers have none."""


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


class HttpProtocol(HttpToolsProtocol):
    """Gives each request its BodyWriter."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        cycle = self.cycle
        if cycle is not None and cycle.scope is self.scope:
            self.scope[BODY_WRITER] = BodyWriter(cycle)  # type: ignore[typeddict-unknown-key]
