"""The format of Mistral: `[TOOL_CALLS] [{"name": …, "arguments": {…}}]`, newer `[TOOL_CALLS]name[ARGS]{…}`."""

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
    """Parses any number of markers. After each comes a list of calls, one call, or a name and arguments."""

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
        layout = _LAYOUT.match(text, at)
        if layout is not None and layout.end() > at:
            self._fenced = self._fenced or "`" in layout[0]
            return layout.end()
        if text[at] in "[{":
            self._reader = JsonCallReader()
            self._step = self._read_value
            return at
        name_match = _NAME.match(text, at)
        end = name_match.end() if name_match else at
        if end == len(text) < at + _MAX_NAME_LENGTH:
            return None
        self._name = text[at:end]
        self._step = self._read_after_name if self._name else self._release_text
        return end

    def _read_after_name(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """Reads the rest of a call after its name: an optional call id, then the arguments."""
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
        match = _CALL_ID_CHARS.match(text, at)
        if match is not None and match.end() > at:
            return match.end()
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
        layout = _LAYOUT.match(text, at)
        if layout is not None and layout.end() > at:
            return layout.end()
        self._leave_call()
        return at

    def _skip_to_marker(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """Skips an invalid call up to the next marker."""
        start = _next_marker(text, at)
        if start > at:
            return start
        if may_become(MARKER, text, at):
            return None
        output.append(MalformedCall(self._recorded_text(), self._reader.fault, truncated=False))
        self._leave_call()
        return at

    def _release_text(self, text: str, at: int, output: list[ParserOutput]) -> int:
        """Emits the recorded marker as plain text, because no call follows it."""
        output.append(PlainText(self._recorded_text()))
        self._leave_call()
        return at

    def _leave_call(self) -> None:
        self._recording = False
        self._step = self._read_outside


def _next_marker(text: str, at: int) -> int:
    """Returns the index of the next marker, or of an incomplete one at the end, or else the end of the text."""
    start = text.find(MARKER, at)
    if start != -1:
        return start
    start = text.rfind("[", at)
    return start if start != -1 and may_become(MARKER, text, start) else len(text)
