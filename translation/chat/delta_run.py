"""Recognizes delta runs: chunks that differ in one text only, which is read without parsing the chunks.

Most chunks of most streams belong to such a run: answer text, reasoning, or the arguments of a call.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Self

import orjson

from translation.representation.events import Delta, Event

_BACKSLASH: Final = ord("\\")
_FRAME_HEAD: Final = b"data: "
_FRAME_TAIL: Final = b"\n\n"
_FRAME_HEAD_BYTES, _FRAME_TAIL_BYTES = len(_FRAME_HEAD), len(_FRAME_TAIL)
_LINE_BREAKS: Final = ("\n", "\r")


class ChatDeltaRun:
    """The bytes around the text of one chunk, learnt from that chunk.

    JSON strings escape their quotes. So if a later chunk has the same bytes around a string without bare quotes, it
    differs from the learnt chunk in its text only, and reading the text gives all that parsing the chunk would give.
    """

    __slots__ = (
        "_frame_end",
        "_frame_start",
        "_head",
        "_tail",
        "_text_end",
        "_text_start",
        "_two_frames",
        "frame_head",
        "frame_tail",
        "observers",
        "stops_at_line_break",
        "text_key",
    )

    def __init__(
        self,
        head: bytes,
        tail: bytes,
        delta: Delta,
        observers: Sequence[Callable[[str], object]] = (),
        *,
        stops_at_line_break: bool = False,
    ) -> None:
        """`head` ends with the quote before the text, `tail` begins with the quote after it.

        `delta` is the event of the learnt chunk. `observers` record the texts for the decoder.
        """
        self.text_key = (delta.index, delta.part_index)
        """The item and the part that the texts belong to."""
        self.observers = observers
        """Called with every text of the run, decoded or by template: they are the decoder's own record of the texts."""
        self.stops_at_line_break = stops_at_line_break
        """Whether a text that ends with a line break has to be decoded, because line breaks at the end are stripped."""
        self._head, self._tail = head, tail
        self.frame_head, self.frame_tail = _FRAME_HEAD + head, tail + _FRAME_TAIL
        self._two_frames = 2 * (len(self.frame_head) + len(self.frame_tail))
        self._text_start = start = len(head) - 1
        self._text_end = end = 1 - len(tail)
        self._frame_start, self._frame_end = start + _FRAME_HEAD_BYTES, end - _FRAME_TAIL_BYTES

    @classmethod
    def from_delta(
        cls,
        payload: bytes,
        field: str,
        delta: Delta,
        observers: Sequence[Callable[[str], object]] = (),
        *,
        stops_at_line_break: bool = False,
    ) -> Self | None:
        """Learns a run from a chunk whose only text, in `field`, is the text of `delta`.

        Returns None if the position of the text in the bytes is ambiguous, or the text would end the run.
        """
        key = b'"%b":' % field.encode()
        before, separator, rest = payload.partition(key)
        if not separator or key in rest:
            return None
        start = len(before) + len(key)
        if payload[start : start + 1] == b" ":
            start += 1
        encoded = orjson.dumps(delta.text)
        end = start + len(encoded)
        if payload[start:end] != encoded:
            return None  # the upstream escapes differently
        run = cls(payload[: start + 1], payload[end - 1 :], delta, observers, stops_at_line_break=stops_at_line_break)
        return None if run.must_decode(delta.text) else run

    @classmethod
    def from_payload(cls, payload: bytes, fields: Iterable[str]) -> Self | None:
        """Learns a run from a chunk that was not decoded. Its text is in one of `fields`.

        Returns None if the chunk has no text, or its position in the bytes is ambiguous.
        """
        try:
            chunk = orjson.loads(payload)
        except ValueError:
            return None
        match chunk:
            case {"choices": [{"delta": dict(delta)}]}:
                for field in fields:
                    text = delta.get(field)
                    if isinstance(text, str) and text:
                        return cls.from_delta(payload, field, Delta(0, None, text))
        return None

    def must_decode(self, text: str) -> bool:
        """Returns whether a chunk with this text does not belong to the run."""
        return self.stops_at_line_break and text.endswith(_LINE_BREAKS)

    def take_texts(self, texts: Sequence[str]) -> list[Event]:
        """Returns the events of chunks of the run with these texts, and calls the observers with the texts."""
        for observe in self.observers:
            for text in texts:
                observe(text)
        return list(map(partial(Delta, *self.text_key), texts))

    def read_payload_texts(self, payloads: Iterable[bytes]) -> list[str]:
        """Returns the texts of chunks of the run, up to the first chunk that has to be parsed."""
        texts: list[str] = []
        try:
            for payload in payloads:
                if not (payload.startswith(self._head) and payload.endswith(self._tail)):
                    break
                text = orjson.loads(payload[self._text_start : self._text_end])
                if not text or self.must_decode(text):
                    break
                texts.append(text)
        except ValueError:
            return texts
        return texts

    def parse_texts(self, read: bytes) -> list[str] | None:
        """Returns the non-empty texts of a read that consists only of frames of the run; None for any other read."""
        if not (read.startswith(self.frame_head) and read.endswith(self.frame_tail)):
            return None
        texts = self._parse_strings(read)
        return None if texts is not None and self.stops_at_line_break and any(map(self.must_decode, texts)) else texts

    def _parse_strings(self, read: bytes) -> list[str] | None:
        strings = read[self._frame_start : self._frame_end]
        try:
            if len(read) < self._two_frames:
                return [text] if (text := orjson.loads(strings)) else []
            inners = strings[1:-1].split(self.frame_tail + self.frame_head)
            joined = b'"%b"' % b'","'.join(inners)
            if _BACKSLASH not in joined and joined.count(b'"') == 2 * len(inners):
                # There is no escape, and each string has exactly two quotes. So they can be parsed as one JSON array.
                return [*filter(None, orjson.loads(b"[%b]" % joined))]
            return [text for inner in inners if (text := orjson.loads(b'"%b"' % inner))]
        except ValueError:
            return None
