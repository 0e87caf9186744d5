"""Calls that are the answer: JSON from its first character on, without any tag."""

import re
from collections.abc import Callable
from typing import Final, Protocol

from translation.parsers.tools.call_json import CallJson, CallReader
from translation.parsers.tools.parser_output import Said, Text, Unreadable
from translation.parsers.tools.steps import CUT, StepParser, may_become

_FENCE: Final = "```"
_LONGEST_LANGUAGE: Final = 20
_LANGUAGE: Final = re.compile(rf"[A-Za-z0-9_-]{{0,{_LONGEST_LANGUAGE}}}")
_SPACES: Final = re.compile(r"\s*")


class LeadingReader(CallReader, Protocol):
    """Reads a value that may be something else than calls: then it breaks before any has started."""

    @property
    def begun(self) -> bool:
        """Whether it may be a call that is being written."""
        ...


class LeadingParser(StepParser):
    """Values at the start of the answer, or in a code fence there, are calls; all that is none, and follows, is text.

    What may be a call is held back until it tells that it is none.
    """

    def __init__(
        self,
        *,
        values: str,
        separators: str = "",
        prefix: str = "",
        reader: Callable[[], LeadingReader] = lambda: CallJson(doubtful=True),
    ) -> None:
        """`values` are the characters a value begins with, `separators` may stand between two, `prefix` before each."""
        super().__init__(self._before)
        self._values = values
        self._separators = separators
        self._prefix = prefix
        self._fenced = False
        self._new_reader = reader
        self._reader = reader()
        self._record()

    def _end(self, held: str) -> list[Said]:
        raw = self._recorded(held)
        if self._step == self._spoiled:
            return [Unreadable(raw, self._reader.why, cut=False)]
        if self._step == self._read and self._reader.begun:
            return [] if self._reader.between else [Unreadable(raw, CUT, cut=True)]
        return [] if self._step == self._after else [Text(raw)]

    def _before(self, text: str, at: int, said: list[Said]) -> int | None:
        """Before a value: only what may stand there."""
        found = _SPACES.match(text, at)
        if found is not None and found.end() > at:
            return found.end()
        if text[at] in self._values:
            self._reader = self._new_reader()
            self._step = self._read
            return at
        for mark in filter(None, (self._prefix, _FENCE)):
            if text.startswith(mark, at):
                if mark == _FENCE:
                    self._fenced = True
                    self._step = self._language
                return at + len(mark)
            if may_become(mark, text, at):
                return None
        self._step = self._release
        return at

    def _language(self, text: str, at: int, said: list[Said]) -> int | None:
        found = _LANGUAGE.match(text, at)
        end = found.end() if found else at
        if end == len(text) < at + _LONGEST_LANGUAGE:
            return None
        self._step = self._before
        return end

    def _read(self, text: str, at: int, said: list[Said]) -> int:
        end = self._reader.feed(text, at, said)
        if self._reader.whole:
            self._step = self._after
        elif self._reader.why:
            self._step = self._spoiled if self._reader.started else self._release
        return end

    def _after(self, text: str, at: int, said: list[Said]) -> int | None:
        if text[at].isspace() or text[at] in self._separators:
            return at + 1
        if self._fenced and text.startswith(_FENCE, at):
            self._fenced = False
            return at + len(_FENCE)
        if self._fenced and may_become(_FENCE, text, at):
            return None
        self._record()
        self._step = self._before
        return at

    def _release(self, text: str, at: int, said: list[Said]) -> int:
        """What was recorded is text, and so is the rest."""
        said.append(Text(self._recorded()))
        self._raw = []
        self._recording = False
        self._step = self._text
        return at

    def _text(self, text: str, at: int, said: list[Said]) -> int:
        said.append(Text(text[at:]))
        return len(text)

    def _spoiled(self, text: str, at: int, said: list[Said]) -> int:
        return len(text)


class GenericJsonParser(LeadingParser):
    """An object or a list of objects, in a code fence or not."""

    def __init__(self) -> None:
        super().__init__(values="{[")


class Llama3JsonParser(LeadingParser):
    """Objects, after a `<|python_tag|>` or not. A list is text."""

    def __init__(self) -> None:
        super().__init__(values="{", separators=";,", prefix="<|python_tag|>")
