"""Text deltas of an upstream to text deltas of ours in one call, where they come one after the other."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import orjson

_BACKSLASH: Final = ord("\\")
_QUOTE: Final = 1


class Alike(Protocol):
    """Frames of an upstream that differ in their text only."""

    @property
    def place(self) -> tuple[int, int | None]:
        """The item and part that the texts go to."""
        ...

    @property
    def frame_head(self) -> bytes:
        """What each frame begins with, up to the text and with its first quote; `frame_tail`, what it ends with."""
        ...

    @property
    def frame_tail(self) -> bytes: ...

    def texts_of(self, read: bytes) -> list[str] | None:
        """The texts of a read that is nothing but such frames, without empty ones; None for any other."""
        ...


class Encoder(Protocol):
    """Numbers the events that it tells."""

    sequence: int

    def say(self, place: tuple[int, int | None], texts: Sequence[str]) -> bytes: ...


class Retelling:
    """The two ends of one run: what stands around a text as it comes, and the frame that it goes out in.

    Deltas mostly come one by one, each to an idle core whose caches others have used meanwhile: so everything that one
    of them needs lies in this object, and is done in one call.
    """

    __slots__ = ("_append", "_encoder", "_end", "_head", "_start", "_tail", "_template", "_two", "run")

    def __init__(self, run: Alike, encoder: Encoder, append: Callable[[str], None], template: bytes) -> None:
        """`append` keeps a text; `template` is a `%`-format of the frame for an event's number and its encoded text."""
        self.run = run
        self._encoder = encoder
        self._append = append
        self._template = template
        self._head, self._tail = run.frame_head, run.frame_tail
        self._start, self._end = len(run.frame_head) - _QUOTE, _QUOTE - len(run.frame_tail)
        self._two = 2 * (len(run.frame_head) + len(run.frame_tail))

    def frames_of(self, read: bytes) -> bytes | None:
        """The frames that a read becomes, possibly none; None, and nothing is done, for one that is not of the run."""
        if len(read) >= self._two:
            texts = self.run.texts_of(read)
            return None if texts is None else self._encoder.say(self.run.place, texts)
        if not (read.startswith(self._head) and read.endswith(self._tail)):
            return None
        string = read[self._start : self._end]
        try:
            text = orjson.loads(string)
        except ValueError:
            return None
        if not text:
            return b""
        self._append(text)
        encoder = self._encoder
        encoder.sequence = number = encoder.sequence + 1
        # Without escapes it is encoded as it would be here.
        return self._template % (number, orjson.dumps(text) if _BACKSLASH in string else string)
