"""Newline-delimited JSON: bytes to payloads. https://github.com/ndjson/ndjson-spec"""

from typing import Final, NoReturn

from translation.errors import ProtocolViolation
from translation.framing.reply_weight import LIGHT_BYTES, ReadStructure, is_light, require_light
from translation.framing.sse import DEFAULT_MAX_FRAME_BYTES, Frame

_BOM: Final = b"\xef\xbb\xbf"


class LineDecoder:
    """Splits the reads of one stream into lines: `parse_payloads` per read, `finish` after the last.

    Blank lines and the whitespace around lines are dropped. Raises ProtocolViolation when a line is longer than
    `max_line_bytes`, or heavy (see `require_light`); the decoder buffers no more than that.
    """

    at_boundary: Final = False
    """Always False, because there is no fast path: every read is split into lines."""

    def __init__(self, max_line_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._structure: ReadStructure | None = None
        """What the line in the buffer consists of, once it is long."""
        self._at_start = True

    def parse_payloads(self, read: bytes) -> list[bytes]:
        """Adds one read. Returns the lines that it completed, possibly none."""
        if read.find(b"\n") < 0:
            self._buffer_read(read)
            return []
        whole, _, rest = b"".join([*self._buffer, read]).rpartition(b"\n")
        if len(whole) > self._max_line_bytes and max(map(len, whole.split(b"\n"))) > self._max_line_bytes:
            self._refuse_line()
        structure, self._structure = self._structure, None
        self._buffer.clear()
        self._buffered_bytes = 0
        self._buffer_read(rest)
        lines = self._split_lines(whole)
        is_first_light = False
        if structure is not None and lines:
            first = whole.partition(b"\n")[0].rstrip()
            is_first_light = structure.proves_light(first, lines[0], self._max_line_bytes)
        for line in lines[1:] if is_first_light else lines:
            if len(line) > LIGHT_BYTES:
                require_light(line, self._max_line_bytes)
        return lines

    def finish(self) -> list[Frame]:
        """Returns the bytes after the last line end, as at most one frame.

        The line may be whole or cut: only parsing shows which. A heavy one counts as cut off.
        """
        rest = b"".join(self._buffer)
        self._buffer.clear()
        lines = self._split_lines(rest)
        return [Frame(None, line, line) for line in lines if is_light(line, self._max_line_bytes)]

    def _split_lines(self, whole: bytes) -> list[bytes]:
        if self._at_start:
            whole = whole.removeprefix(_BOM)
            self._at_start = False
        return [line for raw_line in whole.split(b"\n") if (line := raw_line.strip())]

    def _buffer_read(self, read: bytes) -> None:
        self._buffered_bytes += len(read)
        if self._buffered_bytes > self._max_line_bytes:
            self._refuse_line()
        if read:
            self._buffer.append(read)
        if self._structure is not None:
            self._structure.add(read)
        elif self._buffered_bytes > LIGHT_BYTES:
            self._structure = ReadStructure(self._buffer)

    def _refuse_line(self) -> NoReturn:
        raise ProtocolViolation(f"a line of the stream is longer than {self._max_line_bytes} bytes")
