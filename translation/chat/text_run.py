"""A run of chunks that differ in one text only, so that only the text is read. Most chunks of most streams are such."""

from collections.abc import Iterable
from typing import Self

import orjson


class TextRun:
    """The bytes around the text of one chunk, learnt from it. They hold for as long as chunks look the same.

    JSON strings escape their quotes, so bytes between the same two ends that hold no bare quote are one string: reading
    them is all that parsing the whole chunk would give.
    """

    __slots__ = ("_length", "head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail
        self._length = len(head) + len(tail)

    @classmethod
    def learn(cls, payload: bytes, field: str, text: str) -> Self | None:
        """From a chunk whose one text is `text` in `field`; None where the bytes leave a doubt which that is."""
        key = b'"%b":' % field.encode()
        at = payload.find(key)
        if at < 0 or payload.find(key, at + 1) >= 0:
            return None
        start = at + len(key)
        if payload[start : start + 1] == b" ":
            start += 1
        inner = orjson.dumps(text)
        end = start + len(inner)
        if payload[start:end] != inner:
            return None  # escaped in another way
        return cls(payload[: start + 1], payload[end - 1 :])

    def texts(self, payloads: Iterable[bytes]) -> list[str]:
        """The texts of chunks like the learnt one, up to the first of another kind: that has to be parsed."""
        head, tail, surrounding = self.head, self.tail, self._length
        before, after = len(head), -len(tail)
        texts: list[str] = []
        try:
            for payload in payloads:
                if len(payload) < surrounding or not payload.startswith(head) or not payload.endswith(tail):
                    break
                inner = payload[before:after]
                # A bare quote is invalid in a string: such a chunk holds more than one here.
                escaped = b"\\" in inner or b'"' in inner
                text = orjson.loads(b'"%b"' % inner) if escaped else inner.decode()
                if not text:
                    break
                texts.append(text)
        except ValueError:
            return texts
        return texts
