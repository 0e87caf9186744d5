"""Reads the frames of an event stream of an MCP server, and writes those that the library gets.

The library of HTTP works on each line of a stream in Python, without a pause between two lines. So it never gets a
frame as it came: comments and unknown fields end here, and a frame is written anew, in as few lines as it needs.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pydantic_core import from_json

from gateway.tools.mcp.messages import PROGRESS

_FIELD: Final = re.compile(rb"^(data|event|id|retry)(?:: ?(.*))?$", re.MULTILINE)
_BLANK_LINE: Final = b"\n\n"

_FIELD_START: Final = re.compile(rb"(?:data|event|id|retry):")
_NAME_BYTES: Final = 8
"""A longer line is no field if it does not begin with the name of one and a colon."""

_HEAD_BYTES: Final = 200
"""The first bytes of data that is too large, of which the rest is not kept."""

_MAX_FIELD_BYTES: Final = 8 * 1024
"""The longest id of an event, and the longest address of an endpoint. The library sends an id as a header of HTTP, and
servers read no longer header."""

_MILLISECONDS: Final = re.compile(rb"[0-9]{1,9}")
_MIN_RETRY_MS: Final = 100
"""The shortest time after which the library resumes a stream. A server could name none, and end each stream at once."""

_DENSE_LINES: Final = 1_000
_SLICE_BYTES: Final = 8 * 1024
"""A piece with more lines is read in slices of this size. With the shortest lines, a slice takes a few milliseconds."""

_UNREADABLE: Final = b"unreadable"
"""What the library gets instead of data that is no JSON object. It refuses both, and so ends a call at once."""


@dataclass(slots=True)
class EventFrame:
    """The fields of one frame. `data` has its lines, `lines` and `size` count all lines that are fields.

    `is_cut`: the frame is too large. It has no data, and its lines are no longer counted in `size`.
    """

    data: list[bytes] = field(default_factory=list)
    event: bytes = b""
    last_id: bytes | None = None
    retry_ms: int | None = None
    lines: int = 0
    size: int = 0
    is_cut: bool = False

    def add_field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            if not self.is_cut:
                self.data.append(value)
        elif name == b"event":
            self.event = value
        elif name == b"retry":
            if _MILLISECONDS.fullmatch(value):
                self.retry_ms = max(_MIN_RETRY_MS, int(value))
        elif b"\0" not in value and len(value) <= _MAX_FIELD_BYTES:
            self.last_id = _replace_no_unicode(value)


class MessageLine(NamedTuple):
    """What the library gets of a message, on one line; empty if there is nothing in it. `message` has what is needed of
    the message here; None if it is none. Of an error it has no more than that there is one."""

    line: bytes
    message: dict[str, Any] | None


NO_MESSAGE: Final = MessageLine(b"", None)


class EventFrameReader:
    """Reads frames from a stream that arrives in pieces. Frames without a field are left out.

    `lines` counts the fields so far, `idle_bytes` the bytes of lines that are none, and `cut_bytes` those of frames
    behind the place where they were cut.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.idle_bytes = 0
        self.cut_bytes = 0
        self._begun: bytes | None = b""
        """The first bytes, as long as they may be a part of a byte order mark; else None."""
        self._line = bytearray()
        """The line that has not ended."""
        self._is_skipping = False
        """Whether the line that has not ended is left out."""
        self._frame = EventFrame()
        """The frame that has not ended."""
        self._after_return = False
        """Whether the last byte was a carriage return, which ends a line with or without a line feed behind it."""

    @property
    def held_bytes(self) -> int:
        """The size of the frame that has not ended."""
        return len(self._line) + self._frame.size

    def feed(self, piece: bytes) -> list[EventFrame]:
        """Returns the frames that end in this piece."""
        if self._begun is not None:
            rest = cut_byte_order_mark(self._begun + piece)
            self._begun = self._begun + piece if rest is None else None
            piece = rest or b""
        piece = self._unify_line_ends(piece)
        if self._is_skipping:
            piece = self._skip_line(piece)
        end = piece.rfind(b"\n") + 1
        if not end:
            self._hold_line(piece)
            return []
        lines = bytes(self._line) + piece[:end]
        self._line.clear()
        frames = [*self._read_lines(lines)]
        self._hold_line(piece[end:])
        return frames

    def cut_frame(self) -> bytes:
        """Drops the frame that has not ended, and leaves out the rest of its data, which is counted in `cut_bytes`.
        Returns the beginning of the data that has arrived."""
        frame = self._frame
        data = [
            *frame.data[:_HEAD_BYTES],
            *([bytes(self._line[5 : 5 + _HEAD_BYTES])] if self._line.startswith(b"data:") else []),
        ]
        self._is_skipping = self._is_skipping or bool(self._line)
        self._line.clear()
        frame.data, frame.size, frame.is_cut = [], 0, True
        frame.lines = max(1, frame.lines)  # so that its end is one
        return b" ".join(data)[:_HEAD_BYTES]

    def _hold_line(self, piece: bytes) -> None:
        """Holds the beginning of a line, unless it can be no field: it would be searched through byte by byte."""
        self._line += piece
        is_left_out = self._frame.is_cut and self._line.startswith(b"data:")
        if len(self._line) > _NAME_BYTES and (is_left_out or not _FIELD_START.match(self._line)):
            self._count_skipped(len(self._line))
            self._line.clear()
            self._is_skipping = True

    def _skip_line(self, piece: bytes) -> bytes:
        """Returns what is behind the end of the line that is left out."""
        end = piece.find(b"\n") + 1
        self._is_skipping = not end
        self._count_skipped(end or len(piece))
        return piece[end:] if end else b""

    def _count_skipped(self, size: int) -> None:
        if self._frame.is_cut:
            self.cut_bytes += size
        else:
            self.idle_bytes += size

    def _read_lines(self, lines: bytes) -> Iterator[EventFrame]:
        self.idle_bytes += len(lines)
        read = 0
        for match in _FIELD.finditer(lines):
            if self._frame.lines and _has_blank_line(lines, read, match.start()):
                yield self._end_frame()
            self._frame.add_field(match[1], match[2] or b"")
            size = match.end() + 1 - match.start()
            self._frame.lines += 1
            self.lines += 1
            if self._frame.is_cut:
                self.cut_bytes += size
            else:
                self._frame.size += size
            self.idle_bytes -= size
            read = match.end()
        if self._frame.lines and _has_blank_line(lines, read, len(lines)):
            yield self._end_frame()

    def _end_frame(self) -> EventFrame:
        ended, self._frame = self._frame, EventFrame()
        return ended

    def _unify_line_ends(self, piece: bytes) -> bytes:
        """Returns a piece with line feeds as its only ends of lines."""
        if not piece:
            return piece
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def write_event_frame(
    data: bytes, *, event: bytes = b"", last_id: bytes | None = None, retry_ms: int | None = None
) -> bytes:
    """Returns a frame. `data` must be one line."""
    head = b"" if last_id is None else b"id: %s\n" % last_id
    head += b"event: %s\n" % event if event else b""
    head += b"" if retry_ms is None else b"retry: %d\n" % retry_ms
    return head + (b"data: %s\n\n" % data if data else b"data:\n\n")


def cut_byte_order_mark(begun: bytes) -> bytes | None:
    """Returns the beginning of a text without a byte order mark; None if more of it is needed to know."""
    return None if len(begun) < len(BOM_UTF8) and BOM_UTF8.startswith(begun) else begun.removeprefix(BOM_UTF8)


def count_line_ends(piece: bytes) -> int:
    """Returns the number of the ends of lines in a piece, of which a pair counts twice."""
    return piece.count(b"\n") + piece.count(b"\r")


def slice_piece(piece: bytes) -> list[bytes]:
    """Returns a piece whole, or in slices if it has many lines."""
    if len(piece) <= _SLICE_BYTES or count_line_ends(piece) <= _DENSE_LINES:
        return [piece]
    return [piece[start : start + _SLICE_BYTES] for start in range(0, len(piece), _SLICE_BYTES)]


def read_address(lines: Sequence[bytes]) -> MessageLine:
    """Returns the data of an event which is no JSON, but the address of an endpoint."""
    address = _replace_no_unicode(b" ".join(lines))
    return MessageLine(address, None) if len(address) <= _MAX_FIELD_BYTES else NO_MESSAGE


def read_message(lines: Sequence[bytes], weigh: Callable[[bytes], bytes]) -> MessageLine:
    """Returns the message in lines of data. `weigh` gets it first, and returns what is read, or raises.

    Lines of data are joined by line feeds. In JSON these are only allowed between two tokens, where a blank means the
    same, so that what was read as JSON can be written as one line.
    """
    data = _replace_no_unicode(b"\n".join(lines))
    if data.isspace():
        return NO_MESSAGE
    data = weigh(data)
    try:
        # The parser of the library, which reads more than others as JSON: NaN, for example.
        value = from_json(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return MessageLine(_UNREADABLE, None)
    # Not the whole of a large message, which would be freed on the event loop.
    keys = ("method", "id", "params") if value.get("method") == PROGRESS else ("method", "id")
    message = {key: value[key] for key in keys if key in value}
    if message.get("id", "") is None and "error" in value:
        message["error"] = True
    return MessageLine(data.replace(b"\n", b" "), message or None)


def _replace_no_unicode(text: bytes) -> bytes:
    """Returns a text as UTF-8, with U+FFFD for everything else, as the library reads it."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode(errors="replace").encode()
    return text


def _has_blank_line(lines: bytes, start: int, end: int) -> bool:
    """Returns whether there is a blank line in a part of `lines`: behind the end of a line at `start`, or at 0."""
    return lines.find(_BLANK_LINE, start, end) >= 0 or (start == 0 and lines.startswith(b"\n"))
