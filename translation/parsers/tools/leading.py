"""The parser of tool calls without tags: the answer begins with the value of a call."""

import re
from collections.abc import Callable
from typing import Final, Protocol

from translation.parsers.tools.call_json import CallValueReader, JsonCallReader
from translation.parsers.tools.parser_output import MalformedCall, ParserOutput, PlainText
from translation.parsers.tools.steps import CUT_OFF_REASON, StepParser, may_become

_FENCE: Final = "```"
_MAX_LANGUAGE_LENGTH: Final = 20
_LANGUAGE: Final = re.compile(rf"[A-Za-z0-9_-]{{0,{_MAX_LANGUAGE_LENGTH}}}")
_SPACES: Final = re.compile(r"\s*")


class LeadingValueReader(CallValueReader, Protocol):
    """Reads a value that may not be a call. Such a value becomes invalid before any call has started."""

    @property
    def may_be_call(self) -> bool:
        """Whether the value so far may be an incomplete call."""
        ...


class LeadingParser(StepParser):
    """Parses the calls at the start of an answer, which may be in a code fence. Everything after them is text.

    A value that may be a call is held back until it is certain that it is none.
    """

    def __init__(
        self,
        *,
        values: str,
        separators: str = "",
        prefix: str = "",
        reader: Callable[[], LeadingValueReader] = lambda: JsonCallReader(tentative=True),
    ) -> None:
        """`values` are the characters that a value can begin with.

        `separators` are characters that may come between two values. `prefix` may come before each value.
        """
        super().__init__(self._read_before_value)
        self._values = values
        self._separators = separators
        self._prefix = prefix
        self._fenced = False
        self._new_reader = reader
        self._reader = reader()
        self._start_recording()

    def _finish_step(self, pending: str) -> list[ParserOutput]:
        raw = self._recorded_text(pending)
        if self._step == self._skip_rest:
            return [MalformedCall(raw, self._reader.fault, truncated=False)]
        if self._step == self._read_value and self._reader.may_be_call:
            return [] if self._reader.is_between_calls else [MalformedCall(raw, CUT_OFF_REASON, truncated=True)]
        return [] if self._step == self._read_after_value else [PlainText(raw)]

    def _read_before_value(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        """Reads whitespace, the prefix or a code fence before a value. Anything else makes the answer plain text."""
        match = _SPACES.match(text, at)
        if match is not None and match.end() > at:
            return match.end()
        if text[at] in self._values:
            self._reader = self._new_reader()
            self._step = self._read_value
            return at
        for mark in filter(None, (self._prefix, _FENCE)):
            if text.startswith(mark, at):
                if mark == _FENCE:
                    self._fenced = True
                    self._step = self._read_language
                return at + len(mark)
            if may_become(mark, text, at):
                return None
        self._step = self._release_text
        return at

    def _read_language(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        match = _LANGUAGE.match(text, at)
        end = match.end() if match else at
        if end == len(text) < at + _MAX_LANGUAGE_LENGTH:
            return None
        self._step = self._read_before_value
        return end

    def _read_value(self, text: str, at: int, output: list[ParserOutput]) -> int:
        end = self._reader.feed(text, at, output)
        if self._reader.is_complete:
            self._step = self._read_after_value
        elif self._reader.fault:
            self._step = self._skip_rest if self._reader.has_started_call else self._release_text
        return end

    def _read_after_value(self, text: str, at: int, output: list[ParserOutput]) -> int | None:
        if text[at].isspace() or text[at] in self._separators:
            return at + 1
        if self._fenced and text.startswith(_FENCE, at):
            self._fenced = False
            return at + len(_FENCE)
        if self._fenced and may_become(_FENCE, text, at):
            return None
        self._start_recording()
        self._step = self._read_before_value
        return at

    def _release_text(self, text: str, at: int, output: list[ParserOutput]) -> int:
        """Emits the recorded text as plain text. The rest of the answer is plain text, too."""
        output.append(PlainText(self._recorded_text()))
        self._raw = []
        self._recording = False
        self._step = self._read_text
        return at

    def _read_text(self, text: str, at: int, output: list[ParserOutput]) -> int:
        output.append(PlainText(text[at:]))
        return len(text)

    def _skip_rest(self, text: str, at: int, output: list[ParserOutput]) -> int:
        return len(text)


class GenericJsonParser(LeadingParser):
    """Parses an answer that is a JSON object or a list of objects. It may be in a code fence."""

    def __init__(self) -> None:
        super().__init__(values="{[")


class Llama3JsonParser(LeadingParser):
    """Parses an answer of JSON objects. Each may follow a `<|python_tag|>`. A list is plain text."""

    def __init__(self) -> None:
        super().__init__(values="{", separators=";,", prefix="<|python_tag|>")
