"""Server-sent events: bytes to frames and back. https://html.spec.whatwg.org/multipage/server-sent-events.html

Reading accepts what servers really send: LF, CRLF or CR line ends, a byte order mark, comments, several `data:` lines,
no space after the colon, frames cut anywhere. Writing is always LF.
"""

from typing import NamedTuple

from translation.errors import ProtocolViolation

DONE = b"data: [DONE]\n\n"
"""The last frame of a stream, on both APIs."""

DONE_PAYLOAD = b"[DONE]"

KEEP_ALIVE = b": keep-alive\n\n"

DEFAULT_MAX_FRAME_BYTES = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"

_CR, _LF = 0x0D, 0x0A
"""As numbers: `bytes` are searched for one of those ten times faster than for another `bytes`."""

_AROUND = len(b"data: \n\n")


class Frame(NamedTuple):
    """One event: its `event:` name if it had one, its joined `data:` lines, and itself as an LF frame."""

    event: str | None
    payload: bytes
    raw: bytes


def encode(event: str, payload: bytes) -> bytes:
    """A named frame. `payload` is one line."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), payload)


def data(payload: bytes) -> bytes:
    """An unnamed frame. `payload` is one line."""
    return b"data: %s\n\n" % payload


class FrameDecoder:
    """Bytes in with `feed`, whole frames out; `finish` gives what an upstream left without its blank line.

    Frames without data (comments, `id:`, `retry:`) are dropped. Raises ProtocolViolation when a frame grows over
    `max_frame_bytes`; at most that much is held.
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._at_start = True
        self._swallow_lf = False
        self.between = False
        """Whether a frame begins with the next read, whatever came before it."""

    def feed(self, read: bytes) -> list[Frame]:
        """Take one read; return the frames it completed, possibly none."""
        return [frame for whole in self._cut(read) if (frame := _frame(whole)) is not None]

    def payload_of(self, read: bytes) -> bytes | None:
        """The data of a read that is one frame, which leaves as it came; None for any other, which is for `feed`."""
        if self.between or (self._at_start and not self._held):
            payload = read.removesuffix(b"\n\n").removeprefix(b"data: ")
            if len(payload) == len(read) - _AROUND and not (_LF in payload or _CR in payload):
                self._at_start, self.between = False, True
                return payload
        return None

    def payloads(self, read: bytes) -> list[bytes]:
        """`feed` for who needs nothing of the frames but their data."""
        if (payload := self.payload_of(read)) is not None:
            return [payload]
        begins = self.between or (self._at_start and not self._held)
        if begins and read.endswith(b"\n\n") and _CR not in read and (payloads := _payloads(read)):
            self._at_start, self.between = False, True
            return payloads
        return [frame.payload for whole in self._cut(read) if (frame := _frame(whole)) is not None]

    def _cut(self, read: bytes) -> list[bytes]:
        """Whole frames without their blank lines."""
        if self._at_start or self._swallow_lf or _CR in read:
            read = self._normalise(read)
        # A blank line can only begin here or on the join with what is held: a long frame is scanned once.
        held = self._held
        if read.find(b"\n\n") < 0 and not (held and read[:1] == b"\n" and held[-1][-1:] == b"\n"):
            self._hold(read)
            self.between = self.between and not read
            return []
        if held:
            held.append(read)
            read = b"".join(held)
            held.clear()
            self._held_bytes = 0
        *wholes, rest = read.split(b"\n\n")
        if rest:
            self._hold(rest)
        self.between = not rest and not self._swallow_lf
        return wholes

    def finish(self) -> list[Frame]:
        """The upstream closed. What it left counts as a frame, whole or cut: its payload will tell."""
        rest = b"".join(self._held).rstrip(b"\n")
        self._held.clear()
        frame = _frame(rest)
        return [] if frame is None else [frame]

    def _hold(self, read: bytes) -> None:
        self._held_bytes += len(read)
        if self._held_bytes > self._max:
            raise ProtocolViolation(f"an event of the stream is longer than {self._max} bytes")
        if read:
            self._held.append(read)

    def _normalise(self, read: bytes) -> bytes:
        if self._at_start:
            # The mark is three bytes and may be cut; nothing else starts with its first byte.
            head = b"".join(self._held) + read
            if head and head != _BOM and _BOM.startswith(head):
                self._held = [head]
                return b""
            self._held = []
            self._held_bytes = 0
            self._at_start = not head
            read = head.removeprefix(_BOM)
        if self._swallow_lf and read:
            read = read.removeprefix(b"\n")
            self._swallow_lf = False
        if _CR in read:
            self._swallow_lf = read.endswith(b"\r")
            read = read.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return read


def _payloads(frames: bytes) -> list[bytes] | None:
    """The data of frames that are all `data:` and nothing else, or all an `event:` and then that; None for others."""
    lines = frames.count(b"\n")
    if frames.startswith(b"data: "):
        payloads = frames[6:-2].split(b"\n\ndata: ")
        return payloads if lines == 2 * len(payloads) else None
    payloads = [whole.partition(b"\ndata: ")[2] for whole in frames[:-2].split(b"\n\n") if whole.startswith(b"event: ")]
    return payloads if lines == 3 * len(payloads) and all(payloads) else None


def _frame(lines: bytes) -> Frame | None:
    if lines.startswith(b"data: ") and b"\n" not in lines:
        return Frame(None, lines[6:], lines + b"\n\n")
    event: str | None = None
    payload: list[bytes] = []
    for line in lines.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            payload.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    if not payload:
        return None
    joined = b"\n".join(payload)
    if len(payload) == 1 and event is not None:
        return Frame(event, joined, encode(event, joined))
    raw = b"".join(b"data: %s\n" % line for line in payload)
    return Frame(event, joined, (b"event: %s\n" % event.encode() if event else b"") + raw + b"\n")
