"""Calls as Mistral writes them: `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, newer `[TOOL_CALLS]name[ARGS]{…}`."""

import re
from typing import Final

from translation.parsers.tools.call_json import CallValueReader, JsonCallReader, NamedArgumentsReader
from translation.parsers.tools.parser_output import MalformedCall, ParserOutput, PlainText
from translation.parsers.tools.steps import CUT_OFF_REASON, StepParser, may_become

MARKER: Final = "[TOOL_CALLS]"
_ARGS: Final = "[ARGS]"
_CALL_ID: Final = "[CALL_ID]"

_MAX_NAME_LENGTH: Final = 200
_NAME: Final = re.compile(rf"[\w.-]{{0,{_MAX_NAME_LENGTH}}}")
_LAYOUT: Final = re.compile(r"[\s`]*")
_CALL_ID_CHARS: Final = re.compile(r"[^\[{\s]*")


class MistralParser(StepParser):
    """Any number of markers, each with a list of calls, one call, or a name and arguments after it."""

    def __init__(self) -> None:
        super().__init__(self._read_outside)
        self._name = ""
        self._fenced = False
        self._reader: CallValueReader = JsonCallReader()

    def _finish_step(self, pending: str) -> list[ParserOutput]:
        if self._step == self._read_outside:
            return [PlainText(pending)]
        if self._step == self._read_after_value or (self._step == self._read_value and self._reader.is_between_calls):
            return []
        raw = self._recorded_text(pending)
        if self._step == self._skip_to_marker:
            return [MalformedCall(raw, self._reader.fault, truncated=False)]
        return [
            PlainText(raw) if self._step == self._release_text else MalformedCall(raw, CUT_OFF_REASON, truncated=True)
        ]

    def _read_outside(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        start = _next_marker(text, at)
        if start > at:
            output.append(PlainText(text[at:start]))
            return start
        if may_become(MARKER, text, at):
            return None
        self._start_recording()
        self._step = self._read_after_marker
        return at

    def _read_after_marker(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
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
            self._reader = JsonCallReader()
            self._step = self._read_value
            return at
        match = _NAME.match(text, at)
        end = match.end() if match else at
        if end == len(text) < at + _MAX_NAME_LENGTH:
            return None
        self._name = text[at:end]
        self._step = self._read_after_name if self._name else self._release_text
        return end

    def _read_after_name(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """After a name: an id or not, then the arguments."""
        if text[at].isspace():
            return at + 1
        if text[at] == "{" and not self._fenced:
            self._reader = NamedArgumentsReader(self._name)
            self._step = self._read_value
            return at
        for mark in (_ARGS, _CALL_ID):
            if text.startswith(mark, at):
                self._step = self._read_call_id if mark == _CALL_ID else self._read_after_name
                return at + len(mark)
            if may_become(mark, text, at):
                return None
        self._step = self._read_after_marker if self._fenced else self._release_text
        self._fenced = False
        return at

    def _read_call_id(self, text: str, at: int, output: list[ParserOutput]) -> int:
        found = _CALL_ID_CHARS.match(text, at)
        if found is not None and found.end() > at:
            return found.end()
        self._step = self._read_after_name
        return at

    def _read_value(self, text: str, at: int, output: list[ParserOutput]) -> int:
        end = self._reader.feed(text, at, output)
        if self._reader.is_complete:
            self._step = self._read_after_value
        elif self._reader.fault:
            self._step = self._skip_to_marker
        return end

    def _read_after_value(self, text: str, at: int, output: list[ParserOutput]) -> int:
        found = _LAYOUT.match(text, at)
        if found is not None and found.end() > at:
            return found.end()
        self._leave_call()
        return at

    def _skip_to_marker(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """What is no call goes on to the next marker."""
        start = _next_marker(text, at)
        if start > at:
            return start
        if may_become(MARKER, text, at):
            return None
        output.append(MalformedCall(self._recorded_text(), self._reader.fault, truncated=False))
        self._leave_call()
        return at

    def _release_text(self, text: str, at: int, output: list[ParserOutput]) -> int:
        """The marker stands before text that begins no call."""
        output.append(PlainText(self._recorded_text()))
        self._leave_call()
        return at

    def _leave_call(self) -> None:
        self._recording = False
        self._step = self._read_outside


def _next_marker(text: str, at: int) -> int:
    """Where a marker is, or could begin; else the end."""
    start = text.find(MARKER, at)
    if start != -1:
        return start
    start = text.rfind("[", at)
    return start if start != -1 and may_become(MARKER, text, start) else len(text)
