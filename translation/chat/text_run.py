"""A run of chunks that differ in one text only, so that only the text is read. Most chunks of most streams are such."""

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

    def text(self, payload: bytes) -> str | None:
        """The text of a chunk like the learnt one; None for any other, which then has to be parsed."""
        head, tail = self.head, self.tail
        if len(payload) < self._length or not payload.startswith(head) or not payload.endswith(tail):
            return None
        inner = payload[len(head) : len(payload) - len(tail)]
        try:
            if b"\\" in inner or b'"' in inner:
                # A bare quote makes this invalid: the chunk holds more than one string here.
                text: str = orjson.loads(b'"%b"' % inner)
                return text
            return inner.decode()
        except ValueError:
            return None
