"""The lifecycle of a stream for every client dialect: batches are fed, then the end is concluded once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import orjson

from translation.encoding.templates import DeltaTemplate
from translation.representation.delta_runs import DeltaRun, TextKey, TextObserver
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)
from translation.representation.json_types import Json

_EventWriter: TypeAlias = Callable[[Any, Any, list[bytes]], None]


def _skip_event(_encoder: Any, _event: Any, _frames: list[bytes]) -> None:
    """Writes nothing: the dialect has no frame for the event."""


class TextFrames(NamedTuple):
    """The output for deltas of one text: a `%`-format for the text as JSON, and the function to call with each."""

    frame_format: bytes
    append: TextObserver


class StreamEnd:
    """The part of encoders and relays that ends their streams."""

    def __init__(self) -> None:
        self.ended = False
        """Whether the reply is over. Then `conclude` returns its last frames."""
        self.failed: Failed | None = None
        """The failure that ended the reply, if there is one."""
        self.closing_frames = b""
        """The frames that `conclude` returns. They are complete once `ended` is True."""
        self._is_concluded = False

    def conclude(self) -> bytes:
        """Returns the last frames, once, after `ended`. A second call returns empty bytes.

        Until then a failure may still replace the end.
        """
        if not self.ended or self._is_concluded:
            return b""
        self._is_concluded = True
        return self._build_closing_frames()

    def _build_closing_frames(self) -> bytes:
        return self.closing_frames


class EventEncoder(StreamEnd, ABC):
    """Encodes the events of one reply. The batches must satisfy the event grammar.

    A dialect derives from it. It has `_write_text`, the two ends, and a method for each event that it has frames for,
    under the names of `_WRITER_NAMES`. An event without a method writes nothing.
    """

    _writers: ClassVar[Mapping[type[Event], _EventWriter]]

    def __init_subclass__(cls) -> None:
        cls._writers = {kind: getattr(cls, name, _skip_event) for kind, name in _WRITER_NAMES.items()}

    def __init__(self) -> None:
        super().__init__()
        self.response: Json | None = None
        """The whole reply, for dialects whose replies are stored; None for all others."""
        self._usage: Usage | None = None
        self._facts: Json = {}
        self._finished: Finished
        """The end of a reply that ended well."""
        self._texts: dict[TextKey, TextFrames] = {}

    def feed(self, batch: Sequence[Event]) -> bytes:
        """Returns the whole frames of one batch; empty bytes if the dialect has nothing for it."""
        frames: list[bytes] = []
        texts = self._texts
        for event in batch:
            if type(event) is not Delta:
                self._write_event(event, frames)
                continue
            text_frames = texts.get((event.index, event.part_index))
            if text_frames is None:
                self._write_text(event.index, event.part_index, event.text, frames)
            else:
                frame_format, append = text_frames
                append(event.text)
                frames.append(frame_format % orjson.dumps(event.text))
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _write_event(self, event: Event, frames: list[bytes]) -> None:
        self._writers[type(event)](self, event, frames)

    def _build_closing_frames(self) -> bytes:
        return self._encode_end(self._finished) if self.failed is None else self._encode_failure(self.failed)

    def build_delta_template(self, run: DeltaRun, observers: Sequence[TextObserver] = ()) -> DeltaTemplate | None:
        """Returns the template that forwards reads of the run; None if their text is not sent in deltas."""
        text_frames = self._texts.get(run.text_key)
        if text_frames is None:
            return None
        return DeltaTemplate(run, text_frames.append, text_frames.frame_format, observers)

    @abstractmethod
    def _write_text(self, index: int, part_index: int | None, text: str, frames: list[bytes], /) -> None:
        """Writes a delta of a text without `TextFrames`, and may add them to `_texts` for the following deltas."""

    @abstractmethod
    def _encode_end(self, finished: Finished, /) -> bytes:
        """Returns the last frames of a reply that ended well."""

    @abstractmethod
    def _encode_failure(self, failed: Failed, /) -> bytes:
        """Returns the last frames of a reply that failed."""

    def _note(self, event: Noted, _frames: list[bytes], /) -> None:
        self._usage = event.usage or self._usage
        self._facts |= event.facts or {}

    def _finish(self, event: Finished, _frames: list[bytes], /) -> None:
        self._usage = event.usage or self._usage
        self._finished = event
        self.ended = True

    def _fail(self, event: Failed, _frames: list[bytes], /) -> None:
        self._usage = event.usage or self._usage
        self.failed = event
        self.ended = True


_WRITER_NAMES: Final[dict[type[Event], str]] = {
    Started: "_start",
    ItemStarted: "_start_item",
    PartStarted: "_start_part",
    PartEnded: "_end_part",
    ItemEnded: "_end_item",
    Annotated: "_annotate",
    Progressed: "_progress",
    Noted: "_note",
    Opaque: "_forward",
    Finished: "_finish",
    Failed: "_fail",
}
"""Type of event -> the method of a dialect that writes it: it takes the event and the list of frames."""
