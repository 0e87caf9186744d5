"""A run of chunks that differ in one text only, so that only the text is read. Most chunks of most streams are such."""

from collections.abc import Iterable
from functools import partial
from typing import Final, Self

import orjson

from translation.chat.reasoning import REASONING_TEXT_FIELDS
from translation.representation.events import Delta, Event

_BACKSLASH: Final = ord("\\")
_FRAME_HEAD: Final = b"data: "
_FRAME_TAIL: Final = b"\n\n"
_FRAME_HEAD_BYTES, _FRAME_TAIL_BYTES = len(_FRAME_HEAD), len(_FRAME_TAIL)
_TEXT_FIELDS: Final = ("content", *REASONING_TEXT_FIELDS)
_TEXT_FIELD_KEYS: Final = {field: b'"%b":' % field.encode() for field in _TEXT_FIELDS}


class ChatDeltaRun:
    """The bytes around the text of one chunk, learnt from it. They hold for as long as chunks look the same.

    JSON strings escape their quotes, so bytes between the same two ends that hold no bare quote are one string: reading
    them is all that parsing the whole chunk would give.
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
        "text_key",
    )

    def __init__(self, head: bytes, tail: bytes, delta: Delta) -> None:
        """`head` ends with the quote before the text, `tail` begins with the one after it. `said`: what it meant."""
        self.text_key = (delta.index, delta.part_index)
        """The item and part its texts go to."""
        self._head, self._tail = head, tail
        self.frame_head, self.frame_tail = _FRAME_HEAD + head, tail + _FRAME_TAIL
        self._two_frames = 2 * (len(self.frame_head) + len(self.frame_tail))
        self._text_start = start = len(head) - 1
        self._text_end = end = 1 - len(tail)
        self._frame_start, self._frame_end = start + _FRAME_HEAD_BYTES, end - _FRAME_TAIL_BYTES

    @classmethod
    def from_delta(cls, payload: bytes, field: str, delta: Delta) -> Self | None:
        """From a chunk whose one text, in `field`, is what `said` says; None where the bytes leave a doubt about it."""
        key = _TEXT_FIELD_KEYS[field]
        before, found, rest = payload.partition(key)
        if not found or key in rest:
            return None
        start = len(before) + len(key)
        if payload[start : start + 1] == b" ":
            start += 1
        inner = orjson.dumps(delta.text)
        end = start + len(inner)
        if payload[start:end] != inner:
            return None  # escaped in another way
        return cls(payload[: start + 1], payload[end - 1 :], delta)

    @classmethod
    def from_payload(cls, payload: bytes) -> Self | None:
        """From a chunk of which nothing is known; None where it says no text, or leaves a doubt which it is."""
        try:
            chunk = orjson.loads(payload)
        except ValueError:
            return None
        match chunk:
            case {"choices": [{"delta": dict(delta)}]}:
                for field in _TEXT_FIELDS:
                    text = delta.get(field)
                    if isinstance(text, str) and text:
                        return cls.from_delta(payload, field, Delta(0, None, text))
        return None

    def deltas(self, texts: Iterable[str]) -> list[Event]:
        """What texts of chunks like the learnt one mean."""
        return list(map(partial(Delta, *self.text_key), texts))

    def texts_in_payloads(self, payloads: Iterable[bytes]) -> list[str]:
        """The texts of chunks like the learnt one, up to the first of another kind: that has to be parsed."""
        texts: list[str] = []
        try:
            for payload in payloads:
                if not (payload.startswith(self._head) and payload.endswith(self._tail)):
                    break
                text = orjson.loads(payload[self._text_start : self._text_end])
                if not text:
                    break
                texts.append(text)
        except ValueError:
            return texts
        return texts

    def parse_texts(self, read: bytes) -> list[str] | None:
        """The texts of a read that is nothing but frames of such chunks, without empty ones; None for any other."""
        if not (read.startswith(self.frame_head) and read.endswith(self.frame_tail)):
            return None
        strings = read[self._frame_start : self._frame_end]
        try:
            if len(read) < self._two_frames:
                return [text] if (text := orjson.loads(strings)) else []
            inners = strings[1:-1].split(self.frame_tail + self.frame_head)
            joined = b'"%b"' % b'","'.join(inners)
            if _BACKSLASH not in joined and joined.count(b'"') == 2 * len(inners):
                # Without escapes, and with no quotes but two for each, they are the strings they look like.
                return [*filter(None, orjson.loads(b"[%b]" % joined))]
            return [text for inner in inners if (text := orjson.loads(b'"%b"' % inner))]
        except ValueError:
            return None
