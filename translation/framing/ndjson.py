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

    between: Final = False
    """Nothing is known of what the next read begins with: each is cut into lines."""

    def __init__(self, max_line_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max = max_line_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._at_start = True

    def payloads(self, read: bytes) -> list[bytes]:
        """Take one read; return the lines it completed, possibly none."""
        if b"\n" not in read:
            self._hold(read)
            return []
        whole, _, rest = b"".join([*self._held, read]).rpartition(b"\n")
        self._held.clear()
        self._held_bytes = 0
        self._hold(rest)
        return self._lines(whole)

    def finish(self) -> list[Frame]:
        """The upstream closed. What it left counts as a line, whole or cut: its payload will tell."""
        rest = b"".join(self._held)
        self._held.clear()
        return [Frame(None, line, line) for line in self._lines(rest)]

    def _lines(self, whole: bytes) -> list[bytes]:
        if self._at_start:
            whole = whole.removeprefix(_BOM)
            self._at_start = False
        return [line for each in whole.split(b"\n") if (line := each.strip())]

    def _hold(self, read: bytes) -> None:
        self._held_bytes += len(read)
        if self._held_bytes > self._max:
            raise ProtocolViolation(f"a line of the stream is longer than {self._max} bytes")
        if read:
            self._held.append(read)
