"""What parsers of calls share: reading on where the last piece of text stopped."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeAlias

from translation.parsers.tools.blank_filter import BlankFilter
from translation.parsers.tools.parser_output import ParserOutput

CUT_OFF_REASON: Final = "the text ends in the middle of a call"

ParserStep: TypeAlias = Callable[[str, int, list[ParserOutput]], int | None]
"""Reads on from an index, adding what is said, and returns where it stopped.

None where the rest is too short to tell: it comes again with more, so it must be bounded. An index that has not moved
must come with another step.
"""


class StepParser(ABC):
    """A ToolParser that is in one step at a time."""

    def __init__(self, first: ParserStep) -> None:
        self._step = first
        self._recording = False
        """Whether what is read belongs to `_raw`."""
        self._raw: list[str] = []
        """What the model wrote of a call so far."""
        self._reread = ""
        """What has to be read once more, before what follows. It must be seldom: that is work of its own."""
        self._pending = ""
        self._blanks = BlankFilter()

    @abstractmethod
    def _finish_step(self, pending: str) -> list[ParserOutput]:
        """What the end of the text means in this step; `held` was too short to tell."""

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
        held, self._pending = self._pending, ""
        return self._blanks.filter_blanks(self._finish_step(held))

    def _start_recording(self, beginning: str = "") -> None:
        """What is read from here on belongs to one call, or to a block of calls."""
        self._recording = True
        self._raw = [beginning]

    def _recorded_text(self, more: str = "") -> str:
        return "".join((*self._raw, more))


def may_become(tag: str, text: str, at: int) -> bool:
    """Whether the text ends within a tag that would begin here."""
    return len(text) - at < len(tag) and tag.startswith(text[at:])
