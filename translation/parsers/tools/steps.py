"""What parsers of calls share: reading on where the last piece of text stopped."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeAlias

from translation.parsers.tools.blank_filter import Blanks
from translation.parsers.tools.parser_output import Said

CUT: Final = "the text ends in the middle of a call"

Step: TypeAlias = Callable[[str, int, list[Said]], int | None]
"""Reads on from an index, adding what is said, and returns where it stopped.

None where the rest is too short to tell: it comes again with more, so it must be bounded. An index that has not moved
must come with another step.
"""


class StepParser(ABC):
    """A ToolParser that is in one step at a time."""

    def __init__(self, first: Step) -> None:
        self._step = first
        self._recording = False
        """Whether what is read belongs to `_raw`."""
        self._raw: list[str] = []
        """What the model wrote of a call so far."""
        self._again = ""
        """What has to be read once more, before what follows. It must be seldom: that is work of its own."""
        self._held = ""
        self._blanks = Blanks()

    @abstractmethod
    def _end(self, held: str) -> list[Said]:
        """What the end of the text means in this step; `held` was too short to tell."""

    def feed(self, text: str) -> list[Said]:
        """See ToolParser."""
        text = self._held + text
        said: list[Said] = []
        at = 0
        while at < len(text):
            recording = self._recording
            end = self._step(text, at, said)
            if end is None:
                break
            if recording:
                self._raw.append(text[at:end])
            at = end
            if self._again:
                text, at, self._again = self._again + text[at:], 0, ""
        self._held = text[at:]
        return self._blanks.drop(said)

    def finish(self) -> list[Said]:
        """See ToolParser."""
        held, self._held = self._held, ""
        return self._blanks.drop(self._end(held))

    def _record(self, beginning: str = "") -> None:
        """What is read from here on belongs to one call, or to a block of calls."""
        self._recording = True
        self._raw = [beginning]

    def _recorded(self, more: str = "") -> str:
        return "".join((*self._raw, more))


def may_become(tag: str, text: str, at: int) -> bool:
    """Whether the text ends within a tag that would begin here."""
    return len(text) - at < len(tag) and tag.startswith(text[at:])
