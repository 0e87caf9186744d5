"""The whole way of a delta that comes alone: out of the chunk it came in, into the chunk it leaves in.

Such a delta wakes an idle core whose caches others have used meanwhile. So what it needs lies in one object, and it is
read, checked, told and written in one call, without the HTTP parser and without a task (docs/adr/0016). `core/` has the
same compiled, and takes several chunks at once.
"""

from collections.abc import Mapping
from time import monotonic
from typing import Final

from orjson import dumps, loads

from dataplane.client_writer import ChunkWriter
from translation.chat.relay_template import RelayTemplate
from translation.responses.delta_template import DeltaTemplate

_BACKSLASH: Final = ord("\\")
_CRLF: Final = b"\r\n"
_LONGEST: Final = 1024


def _size_lines() -> dict[int, tuple[bytes, bytes]]:
    lines = {}
    for size in range(1, _LONGEST + 1):
        lower, upper = b"%x\r\n" % size, b"%X\r\n" % size
        lines[len(lower) + size + len(_CRLF)] = (lower, lower if lower == upper else upper)
    return lines


_SIZE_LINES: Final[Mapping[int, tuple[bytes, bytes]]] = _size_lines()
"""Bytes of a whole chunk (RFC 9112, section 7.1) -> the line it begins with, its digits in lower and in upper case.
Larger ones than deltas are left out, and so are lengths that no chunk has without needless zeros."""


class TemplateFastPath:
    """From deltas of an upstream to deltas of ours."""

    __slots__ = (
        "_append",
        "_client",
        "_encoder",
        "_end",
        "_head",
        "_size",
        "_start",
        "_tail",
        "_template",
        "_wider_at",
    )

    def __init__(self, retelling: DeltaTemplate, client: ChunkWriter) -> None:
        run = retelling.run
        self._client = client
        self._encoder = retelling.encoder
        self._append = retelling.append
        self._head, self._tail = run.frame_head, run.frame_tail + _CRLF
        # With the quotes around the text.
        self._start, self._end = len(run.frame_head) - 1, 1 - len(self._tail)
        self._template = b"%x\r\n" + retelling.frame_format + _CRLF
        self._size = len(retelling.frame_format % (0, b"")) - 1
        self._wider_at = 0
        """From this number on `_size`, the bytes of a frame without its text, is a digit short."""

    def forward_chunks(self, chunk: bytes, /) -> int:
        client = self._client
        lines = _SIZE_LINES.get(len(chunk))
        if lines is None or not (client.ready and chunk.startswith(lines) and chunk.endswith(self._tail)):
            return 0
        skipped = len(lines[0])
        if not chunk.startswith(self._head, skipped):
            return 0
        string = chunk[skipped + self._start : self._end]
        try:
            text = loads(string)
        except ValueError:
            return 0
        if not text:
            return 0
        if _BACKSLASH in string:
            # Without escapes it is encoded as it would be here.
            string = dumps(text)
        append = self._append
        append(text)
        encoder = self._encoder
        encoder.sequence = number = encoder.sequence + 1
        while number >= self._wider_at:
            self._wider_at = self._wider_at * 10 or 10
            self._size += 1
        write_chunk = client.write_chunk
        write_chunk(self._template % (self._size + len(string), number, string))
        client.sent_at = monotonic()
        return len(chunk)


class RelayFastPath:
    """As they came, but for names."""

    __slots__ = ("_client", "_piece_of")

    def __init__(self, passing: RelayTemplate, client: ChunkWriter) -> None:
        self._client = client
        self._piece_of = passing.encode_read

    def forward_chunks(self, chunk: bytes, /) -> int:
        client = self._client
        lines = _SIZE_LINES.get(len(chunk))
        if lines is None or not (client.ready and chunk.startswith(lines) and chunk.endswith(_CRLF)):
            return 0
        came = chunk[len(lines[0]) : -len(_CRLF)]
        if (leaves := self._piece_of(came)) is None:
            return 0
        client.write_chunk(chunk if leaves is came else b"%x\r\n%b\r\n" % (len(leaves), leaves))
        client.sent_at = monotonic()
        return len(chunk)
