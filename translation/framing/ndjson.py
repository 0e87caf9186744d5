"""JSON values, one a line: bytes to payloads. https://github.com/ndjson/ndjson-spec"""

from typing import Final

from translation.errors import ProtocolViolation
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES, Frame

_BOM: Final = b"\xef\xbb\xbf"


class LineDecoder:
    """Bytes in with `payloads`, whole lines out; `finish` gives what an upstream left without its line end.

    Blank lines and the spaces around lines are dropped. Raises ProtocolViolation when a line grows over
    `max_line_bytes`; at most that much is held.
    """

    at_boundary: Final = False
    """Nothing is known of what the next read begins with: each is cut into lines."""

    def __init__(self, max_line_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._at_start = True

    def parse_payloads(self, read: bytes) -> list[bytes]:
        """Take one read; return the lines it completed, possibly none."""
        if b"\n" not in read:
            self._buffer_read(read)
            return []
        whole, _, rest = b"".join([*self._buffer, read]).rpartition(b"\n")
        self._buffer.clear()
        self._buffered_bytes = 0
        self._buffer_read(rest)
        return self._split_lines(whole)

    def finish(self) -> list[Frame]:
        """The upstream closed. What it left counts as a line, whole or cut: its payload will tell."""
        rest = b"".join(self._buffer)
        self._buffer.clear()
        return [Frame(None, line, line) for line in self._split_lines(rest)]

    def _split_lines(self, whole: bytes) -> list[bytes]:
        if self._at_start:
            whole = whole.removeprefix(_BOM)
            self._at_start = False
        return [line for each in whole.split(b"\n") if (line := each.strip())]

    def _buffer_read(self, read: bytes) -> None:
        self._buffered_bytes += len(read)
        if self._buffered_bytes > self._max_line_bytes:
            raise ProtocolViolation(f"a line of the stream is longer than {self._max_line_bytes} bytes")
        if read:
            self._buffer.append(read)
