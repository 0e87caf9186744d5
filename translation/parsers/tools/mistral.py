"""Calls as Mistral writes them: `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, newer `[TOOL_CALLS]name[ARGS]{…}`."""

import re
from typing import Final

from translation.parsers.tools.call_json import CallJson, CallReader, NamedArguments
from translation.parsers.tools.parser_output import Said, Text, Unreadable
from translation.parsers.tools.steps import CUT, StepParser, may_become

MARKER: Final = "[TOOL_CALLS]"
_ARGS: Final = "[ARGS]"
_CALL_ID: Final = "[CALL_ID]"

_LONGEST_NAME: Final = 200
_NAME: Final = re.compile(rf"[\w.-]{{0,{_LONGEST_NAME}}}")
_LAYOUT: Final = re.compile(r"[\s`]*")
_ID: Final = re.compile(r"[^\[{\s]*")


class MistralParser(StepParser):
    """Any number of markers, each with a list of calls, one call, or a name and arguments after it."""

    def __init__(self) -> None:
        super().__init__(self._outside)
        self._name = ""
        self._fenced = False
        self._reader: CallReader = CallJson()

    def _end(self, held: str) -> list[Said]:
        if self._step == self._outside:
            return [Text(held)]
        if self._step == self._after or (self._step == self._read and self._reader.between):
            return []
        raw = self._recorded(held)
        if self._step == self._spoiled:
            return [Unreadable(raw, self._reader.why, cut=False)]
        return [Text(raw) if self._step == self._release else Unreadable(raw, CUT, cut=True)]

    def _outside(self, text: str, at: int, said: list[Said]) -> int | None:
        start = _next_marker(text, at)
        if start > at:
            said.append(Text(text[at:start]))
            return start
        if may_become(MARKER, text, at):
            return None
        self._record()
        self._step = self._marked
        return at

    def _marked(self, text: str, at: int, said: list[Said]) -> int | None:
        if text.startswith(MARKER, at):
            self._fenced = False
            return at + len(MARKER)
        if may_become(MARKER, text, at):
            return None
        found = _LAYOUT.match(text, at)
        if found is not None and found.end() > at:
            self._fenced = self._fenced or "`" in found[0]
            return found.end()
        if text[at] in "[{":
            self._reader = CallJson()
            self._step = self._read
            return at
        named = _NAME.match(text, at)
        end = named.end() if named else at
        if end == len(text) < at + _LONGEST_NAME:
            return None
        self._name = text[at:end]
        self._step = self._named if self._name else self._release
        return end

    def _named(self, text: str, at: int, said: list[Said]) -> int | None:
        """After a name: an id or not, then the arguments."""
        if text[at].isspace():
            return at + 1
        if text[at] == "{" and not self._fenced:
            self._reader = NamedArguments(self._name)
            self._step = self._read
            return at
        for mark in (_ARGS, _CALL_ID):
            if text.startswith(mark, at):
                self._step = self._identified if mark == _CALL_ID else self._named
                return at + len(mark)
            if may_become(mark, text, at):
                return None
        self._step = self._marked if self._fenced else self._release
        self._fenced = False
        return at

    def _identified(self, text: str, at: int, said: list[Said]) -> int:
        found = _ID.match(text, at)
        if found is not None and found.end() > at:
            return found.end()
        self._step = self._named
        return at

    def _read(self, text: str, at: int, said: list[Said]) -> int:
        end = self._reader.feed(text, at, said)
        if self._reader.whole:
            self._step = self._after
        elif self._reader.why:
            self._step = self._spoiled
        return end

    def _after(self, text: str, at: int, said: list[Said]) -> int:
        found = _LAYOUT.match(text, at)
        if found is not None and found.end() > at:
            return found.end()
        self._leave()
        return at

    def _spoiled(self, text: str, at: int, said: list[Said]) -> int | None:
        """What is no call goes on to the next marker."""
        start = _next_marker(text, at)
        if start > at:
            return start
        if may_become(MARKER, text, at):
            return None
        said.append(Unreadable(self._recorded(), self._reader.why, cut=False))
        self._leave()
        return at

    def _release(self, text: str, at: int, said: list[Said]) -> int:
        """The marker stands before text that begins no call."""
        said.append(Text(self._recorded()))
        self._leave()
        return at

    def _leave(self) -> None:
        self._recording = False
        self._step = self._outside


def _next_marker(text: str, at: int) -> int:
    """Where a marker is, or could begin; else the end."""
    start = text.find(MARKER, at)
    if start != -1:
        return start
    start = text.rfind("[", at)
    return start if start != -1 and may_become(MARKER, text, start) else len(text)
