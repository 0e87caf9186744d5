"""Server-sent events: bytes to frames and back. https://html.spec.whatwg.org/multipage/server-sent-events.html

The decoder accepts what servers send in practice: LF, CRLF or CR line ends, a byte order mark, comments, several
`data:` lines, no space after the colon, frames cut anywhere. Frames are written with LF only.
"""

from typing import Any, NamedTuple, NoReturn

from translation.errors import ProtocolViolation
from translation.framing.reply_weight import LIGHT_BYTES, ReadStructure, require_light

DONE_FRAME = b"data: [DONE]\n\n"
"""The last frame of a stream in OpenAI's APIs."""

DONE_PAYLOAD = b"[DONE]"

KEEP_ALIVE_COMMENT = b": keep-alive\n\n"

DEFAULT_MAX_FRAME_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"

_CR, _LF = 0x0D, 0x0A
"""Integers, because `in` finds an integer in `bytes` ten times faster than it finds another `bytes`."""

_FRAME_OVERHEAD_BYTES = len(b"data: \n\n")


class Frame(NamedTuple):
    """One server-sent event: its `event:` name or None, its joined `data:` lines, and the frame with LF line ends."""

    event: str | None
    payload: bytes
    raw: bytes


def require_event_name(value: Any) -> str:
    """Returns the type of an upstream's event, as what a frame of the client has in its `event:` line.

    Raises ProtocolViolation for one that is no text of one line: the client would read what follows a line break as
    fields of their own, or as an event that nobody sent.
    """
    if not isinstance(value, str) or not value.isprintable():
        raise ProtocolViolation("the upstream sent an event whose type is no name")
    return value


def encode_event(event: str, payload: bytes) -> bytes:
    """Returns a frame with an `event:` line. `payload` must be one line."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), payload)


def encode_data(payload: bytes) -> bytes:
    """Returns a frame without an `event:` line. `payload` must be one line."""
    return b"data: %s\n\n" % payload


class FrameDecoder:
    """Splits the reads of one stream into frames: `feed` or `parse_payloads` per read, `finish` after the last.

    Frames without data (comments, `id:`, `retry:`) are dropped. Raises ProtocolViolation when a frame is longer than
    `max_frame_bytes`, or heavy (see `require_light`); the decoder buffers no more than that. With `is_own` the gateway
    wrote the frames: they may be heavy.
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES, *, is_own: bool = False) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._is_own = is_own
        self._max_light_bytes = min(max_frame_bytes, LIGHT_BYTES)
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._structure: ReadStructure | None = None
        """What the frame in the buffer consists of, once it is long."""
        self._at_start = True
        self._skip_lf = False
        self.at_boundary = False
        """Whether the next read begins with a new frame: nothing of the last read is pending."""

    def feed(self, read: bytes) -> list[Frame]:
        """Adds one read. Returns the frames that it completed, possibly none."""
        return self._parse_frames(read)

    def single_payload(self, read: bytes) -> bytes | None:
        """Returns the data of a read that is exactly one `data: …` frame with LF line ends, and consumes the read.

        Returns None for any other read, which the caller must then give to `feed` or `parse_payloads`.
        """
        if len(read) <= self._max_light_bytes and (self.at_boundary or (self._at_start and not self._buffer)):
            payload = read.removesuffix(b"\n\n").removeprefix(b"data: ")
            if payload and len(payload) == len(read) - _FRAME_OVERHEAD_BYTES and not (_LF in payload or _CR in payload):
                self._at_start, self.at_boundary = False, True
                return payload
        return None

    def uniform_payloads(self, read: bytes) -> list[bytes] | None:
        """Returns the data of a read that consists of whole frames of one form, and consumes the read: of `data:`
        lines, or of an `event:` and a `data:` line each.

        Returns None for any other read, as `single_payload` does.
        """
        at_frame_start = self.at_boundary or (self._at_start and not self._buffer)
        at_frame_start = at_frame_start and len(read) <= self._max_light_bytes
        if at_frame_start and read.endswith(b"\n\n") and _CR not in read and (payloads := _uniform_payloads(read)):
            self._at_start, self.at_boundary = False, True
            return payloads
        return None

    def parse_payloads(self, read: bytes) -> list[bytes]:
        """Adds one read. Returns the data of the frames that it completed, possibly none."""
        if (payload := self.single_payload(read)) is not None:
            return [payload]
        if (payloads := self.uniform_payloads(read)) is not None:
            return payloads
        return [frame.payload for frame in self._parse_frames(read)]

    def _parse_frames(self, read: bytes) -> list[Frame]:
        structure = self._structure
        frames: list[Frame] = []
        for whole in self._split_frames(read):
            if (frame := _parse_frame(whole)) is not None:
                frames.append(frame)
                if len(frame.payload) > LIGHT_BYTES and not self._is_own:
                    self._require_light(whole, frame.payload, structure)
            structure = None  # it is that of the first frame
        return frames

    def _require_light(self, whole: bytes, payload: bytes, structure: ReadStructure | None) -> None:
        if structure is None or not structure.proves_light(whole, payload, self._max_frame_bytes):
            require_light(payload, self._max_frame_bytes)

    def _split_frames(self, read: bytes) -> list[bytes]:
        """Returns the whole frames of the stream so far without their blank lines, and buffers the rest."""
        if self._at_start or self._skip_lf or _CR in read:
            read = self._normalise(read)
        # A blank line is in this read or where it joins the buffer, so the buffer is not searched again for each read.
        buffer = self._buffer
        if read.find(b"\n\n") < 0 and not (buffer and read[:1] == b"\n" and buffer[-1][-1:] == b"\n"):
            self._buffer_read(read)
            self.at_boundary = self.at_boundary and not read
            return []
        if buffer:
            buffer.append(read)
            read = b"".join(buffer)
            buffer.clear()
            self._buffered_bytes = 0
            self._structure = None
        *wholes, rest = read.split(b"\n\n")
        if len(read) > self._max_frame_bytes and max(map(len, wholes)) > self._max_frame_bytes:
            self._refuse_frame()
        if rest:
            self._buffer_read(rest)
        self.at_boundary = not rest and not self._skip_lf
        return wholes

    def finish(self) -> list[Frame]:
        """Returns the bytes after the last blank line, as at most one frame.

        The frame may be whole or cut: only parsing shows which. A heavy one counts as cut off.
        """
        rest = b"".join(self._buffer).rstrip(b"\n")
        self._buffer.clear()
        frame = _parse_frame(rest)
        if frame is None:
            return []
        try:
            if not self._is_own:
                self._require_light(rest, frame.payload, self._structure)
        except ProtocolViolation:
            return []
        return [frame]

    def _buffer_read(self, read: bytes) -> None:
        self._buffered_bytes += len(read)
        if self._buffered_bytes > self._max_frame_bytes + 1:  # the line break may be the first of the blank line
            self._refuse_frame()
        if read:
            self._buffer.append(read)
        if self._structure is not None:
            self._structure.add(read)
        elif self._buffered_bytes > LIGHT_BYTES and not self._is_own:
            self._structure = ReadStructure(self._buffer)

    def _refuse_frame(self) -> NoReturn:
        raise ProtocolViolation(f"an event of the stream is longer than {self._max_frame_bytes} bytes")

    def _normalise(self, read: bytes) -> bytes:
        if self._at_start:
            # The byte order mark is three bytes and may be cut; no other valid stream starts with its first byte.
            head = b"".join(self._buffer) + read
            if head and head != _BOM and _BOM.startswith(head):
                self._buffer = [head]
                return b""
            self._buffer = []
            self._buffered_bytes = 0
            self._at_start = not head
            read = head.removeprefix(_BOM)
        if self._skip_lf and read:
            read = read.removeprefix(b"\n")
            self._skip_lf = False
        if _CR in read:
            self._skip_lf = read.endswith(b"\r")
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return read


_AROUND_NAMES = b" \t" + _BOM
"""Bytes that some servers write before the names of fields: they indent lines, or begin each write with the mark."""


def _uniform_payloads(frames: bytes) -> list[bytes] | None:
    """Returns the data of frames that all have one form: a `data:` line, or an `event:` and a `data:` line.

    Returns None for frames of any other or of mixed form.
    """
    lines = frames.count(b"\n")
    if frames.startswith(b"data: "):
        payloads = frames[6:-2].split(b"\n\ndata: ")
        return payloads if lines == 2 * len(payloads) and all(payloads) else None
    payloads = [whole.partition(b"\ndata: ")[2] for whole in frames[:-2].split(b"\n\n") if whole.startswith(b"event: ")]
    return payloads if lines == 3 * len(payloads) and all(payloads) else None


def _parse_frame(lines: bytes) -> Frame | None:
    """Returns the frame of the lines between two blank lines; None if there is no data, or it is empty."""
    if lines.startswith(b"data: ") and _LF not in lines and len(lines) > len(b"data: "):
        return Frame(None, lines[6:], lines + b"\n\n")
    event: str | None = None
    data_lines: list[bytes] = []
    for line in lines.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data_lines.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
        elif name.strip(_AROUND_NAMES).lower() == b"data":
            data_lines.append(value)  # the standard ignores such a line, but then a part of the answer would be lost
    if not any(data_lines):
        return None
    joined = b"\n".join(data_lines)
    if len(data_lines) == 1 and event is not None:
        return Frame(event, joined, encode_event(event, joined))
    raw = b"".join(b"data: %s\n" % line for line in data_lines)
    return Frame(event, joined, (b"event: %s\n" % event.encode() if event else b"") + raw + b"\n")
