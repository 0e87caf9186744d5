"""Recognizes delta runs: chunks that differ in one text only, which is read without parsing the chunks.

Most chunks of most streams belong to such a run: answer text, reasoning, or the arguments of a call.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Self

import orjson

from translation.representation.delta_runs import TextTrimmer, trim_texts
from translation.representation.events import Delta, Event
from translation.representation.streamed_text import StreamedText

_BACKSLASH: Final = ord("\\")
_FRAME_HEAD: Final = b"data: "
_FRAME_TAIL: Final = b"\n\n"
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

_STOPS_OF_ARGUMENTS: Final = (b"{", rb"\"{")
"""An object, or a JSON text of one, may be all arguments of the call once more."""


class ChatDeltaRun:
    """The bytes around the text of one chunk, learnt from that chunk.

    JSON strings escape their quotes. So if a later chunk has the same bytes around a string without bare quotes, it
    differs from the learnt chunk in its text only, and reading the text gives all that parsing the chunk would give.
    """

    __slots__ = (
        "_head",
        "_tail",
        "frame_head",
        "frame_tail",
        "observers",
        "stops",
        "streamed_text",
        "text_key",
        "trimmer",
    )

    def __init__(
        self,
        head: bytes,
        tail: bytes,
        delta: Delta,
        observers: Sequence[Callable[[str], object]] = (),
        trimmer: TextTrimmer | None = None,
        streamed_text: StreamedText | None = None,
    ) -> None:
        """`head` ends with the quote before the text, `tail` begins with the quote after it.

        `delta` is the event of the learnt chunk. `observers` record the texts for the decoder.
        """
        self.text_key = (delta.index, delta.part_index)
        """The item and the part that the texts belong to."""
        self.observers = observers
        """Called with every text of the run, decoded or by template: they are the decoder's own record of the texts."""
        self.trimmer = trimmer
        """The decoder's own, if line breaks at the end of its texts are stripped."""
        self.streamed_text = streamed_text
        """Remembers the texts of the run as the upstream sent them."""
        self.stops: tuple[bytes, ...] = ()
        """The beginnings of texts that end the run, because they have to be examined. They are as in JSON strings."""
        self._head, self._tail = head, tail
        self.frame_head, self.frame_tail = _FRAME_HEAD + head, tail + _FRAME_TAIL

    @classmethod
    def from_delta(
        cls,
        payload: bytes,
        field: str,
        delta: Delta,
        observers: Sequence[Callable[[str], object]] = (),
        trimmer: TextTrimmer | None = None,
        streamed_text: StreamedText | None = None,
    ) -> Self | None:
        """Learns a run from a chunk whose only text, in `field`, is the text of `delta`.

        Returns None if the position of the text in the bytes is ambiguous.
        """
        key = b'"%b":' % field.encode()
        before, separator, rest = payload.partition(key)
        if not separator or key in rest:
            return None
        start = len(before) + len(key)
        if payload[start : start + 1] == b" ":
            start += 1
        # Upstreams escape differently: some escape every character beyond ASCII.
        string = _STRING.match(payload, start)
        if string is None or orjson.loads(string[0]) != delta.text:
            return None
        run = cls(payload[: start + 1], payload[string.end() - 1 :], delta, observers, trimmer, streamed_text)
        if field == "arguments":
            run.stops = _STOPS_OF_ARGUMENTS
        return run

    def take_texts(self, texts: Sequence[str]) -> list[Event]:
        """Returns the events of chunks of the run with these texts, and calls the observers with the texts."""
        self.note_texts(texts)
        if self.trimmer is not None:
            texts = trim_texts(self.trimmer, texts)
        for observe in self.observers:
            for text in texts:
                observe(text)
        return list(map(partial(Delta, *self.text_key), texts))

    def note_texts(self, texts: Sequence[str]) -> None:
        """Notes texts of the run, for the comparison with the upstream's final value."""
        if self.streamed_text is not None:
            self.streamed_text.add("".join(texts))

    def read_payload_texts(self, payloads: Iterable[bytes]) -> list[str]:
        """Returns the texts of chunks of the run, up to the first chunk that has to be parsed."""
        texts: list[str] = []
        head, tail = self._head, self._tail
        start, end = len(head) - 1, 1 - len(tail)
        stops = self.stops
        try:
            for payload in payloads:
                if not (payload.startswith(head) and payload.endswith(tail)):
                    break
                if stops and payload.startswith(stops, len(head)):
                    break
                text = orjson.loads(payload[start:end])
                if not text:
                    break
                texts.append(text)
        except ValueError:
            return texts
        return texts

    def parse_texts(self, read: bytes) -> list[str] | None:
        """Returns the non-empty texts of a read that consists only of frames of the run; None for any other read."""
        head, tail = self.frame_head, self.frame_tail
        if not (read.startswith(head) and read.endswith(tail)):
            return None
        strings = read[len(head) - 1 : 1 - len(tail)]
        try:
            if len(read) < 2 * (len(head) + len(tail)):
                if self.stops and strings.startswith(self.stops, 1):
                    return None
                return [text] if (text := orjson.loads(strings)) else []
            inners = strings[1:-1].split(tail + head)
            if self.stops and any(inner.startswith(self.stops) for inner in inners):
                return None
            joined = b'"%b"' % b'","'.join(inners)
            if _BACKSLASH not in joined and joined.count(b'"') == 2 * len(inners):
                # There is no escape, and each string has exactly two quotes. So they can be parsed as one JSON array.
                return [*filter(None, orjson.loads(b"[%b]" % joined))]
            return [text for inner in inners if (text := orjson.loads(b'"%b"' % inner))]
        except ValueError:
            return None
