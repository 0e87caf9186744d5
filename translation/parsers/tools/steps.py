"""The base class of tool parsers: it runs a parser step by step and continues where the last text stopped."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeAlias

from translation.parsers.tools.parser_output import BlankFilter, ParserOutput

CUT_OFF_REASON: Final = "the text ends in the middle of a call"

ParserStep: TypeAlias = Callable[[str, int, list[ParserOutput]], int | None]
"""Reads on from an index, appends to the output, and returns the index where it stopped.

It returns None if the rest of the text is too short to decide. The rest then comes again with more text, so it must be
bounded. A step that returns the same index must set another step.
"""


class StepParser(ABC):
    """A ToolParser as a state machine: the current step reads the text."""

    def __init__(self, first: ParserStep) -> None:
        self._step = first
        self._recording = False
        """Whether the text that is read is appended to `_raw`."""
        self._raw: list[str] = []
        """The raw text of the call so far."""
        self._reread = ""
        """Text to read again, before the text that follows. Steps must set it rarely, because it costs extra time."""
        self._pending = ""
        self._blanks = BlankFilter()

    @abstractmethod
    def _finish_step(self, pending: str) -> list[ParserOutput]:
        """Returns the outputs for the end of the text in the current step.

        `pending` is the text that is not read yet.
        """

    def feed(self, text: str) -> list[ParserOutput]:
        """See ToolParser."""
        text = self._pending + text
        output: list[ParserOutput] = []
        at = 0
        while at < len(text):
            recording = self._recording
            end = self._step(text, at, output)
            if end is None:
                break
            if recording:
                self._raw.append(text[at:end])
            at = end
            if self._reread:
                text, at, self._reread = self._reread + text[at:], 0, ""
        self._pending = text[at:]
        return self._blanks.filter_blanks(output)

    def finish(self) -> list[ParserOutput]:
        """See ToolParser."""
        pending, self._pending = self._pending, ""
        return self._blanks.filter_blanks(self._finish_step(pending))

    def _start_recording(self, beginning: str = "") -> None:
        """Starts to record the raw text of one call, or of a block of calls."""
        self._recording = True
        self._raw = [beginning]

    def _recorded_text(self, more: str = "") -> str:
        return "".join((*self._raw, more))


def may_become(tag: str, text: str, at: int) -> bool:
    """Whether the text from `at` on is an incomplete `tag`."""
    return len(text) - at < len(tag) and tag.startswith(text[at:])
