"""Calls as Python: the answer begins with `[f(a=1, b="x"), g()]`, as Llama 3.2 and Llama 4 write it."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import orjson

from translation.parsers.tools.leading import LeadingParser
from translation.parsers.tools.parser_output import Arguments, CallEnded, CallStarted, Said, Unreadable
from translation.parsers.tools.python_literals import read_arguments

_SPACES: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"[\w.-]*")
_LONGEST_NAME: Final = 200
_PLAIN: Final = re.compile(r"""[^'"()\[\]{}]*""")
_IN_STRING: Final = {"'": re.compile(r"[^'\\]*"), '"': re.compile(r'[^"\\]*')}

_Step: TypeAlias = Callable[[str, int], int]


class PythonicParser(LeadingParser):
    """Calls with keywords and literals, each said when it is complete."""

    def __init__(self) -> None:
        super().__init__(values="[", reader=PythonCalls)


class PythonCalls:
    """Reads one list of calls. What has a name and parentheses is one; a call that cannot be read is left out."""

    def __init__(self) -> None:
        self.whole = False
        self.why = ""
        self.begun = False
        self._said: list[Said] = []
        self._name = ""
        self._body: list[str] = []
        self._depth = 0
        self._quote = ""
        self._step: _Step = self._begin

    @property
    def started(self) -> bool:
        """Whether it is more than a list of something else."""
        return self.begun

    @property
    def between(self) -> bool:
        """Whether the calls so far are whole."""
        return self._step == self._after_call

    def feed(self, text: str, at: int, said: list[Said]) -> int:
        """See CallReader."""
        self._said = said
        while at < len(text) and not self.whole and not self.why:
            at = self._step(text, at)
        return at

    def _begin(self, text: str, at: int) -> int:
        self._step = self._read_name
        return at + 1

    def _read_name(self, text: str, at: int) -> int:
        if not self._name and (end := _end(_SPACES, text, at)) > at:
            return end
        end = min(_end(_NAME, text, at), at + _LONGEST_NAME - len(self._name))
        if end > at:
            self._name += text[at:end]
            return end
        if text[at] == "(" and self._name:
            self.begun = True
            self._body = []
            self._depth = 1
            self._step = self._read_body
            return at + 1
        if text[at] == "]" and self.begun and not self._name:
            self.whole = True
            return at + 1
        self.why = "a list of calls is not valid Python"
        return at

    def _read_body(self, text: str, at: int) -> int:
        if (end := _end(_PLAIN, text, at)) > at:
            self._body.append(text[at:end])
            return end
        mark = text[at]
        if mark in "'\"":
            self._quote = mark
            self._step = self._read_string
        else:
            self._depth += 1 if mark in "([{" else -1
        if self._depth:
            self._body.append(mark)
        else:
            self._say()
        return at + 1

    def _read_string(self, text: str, at: int) -> int:
        if (end := _end(_IN_STRING[self._quote], text, at)) > at:
            self._body.append(text[at:end])
            return end
        self._body.append(text[at])
        self._step = self._escaped if text[at] == "\\" else self._read_body
        return at + 1

    def _escaped(self, text: str, at: int) -> int:
        self._body.append(text[at])
        self._step = self._read_string
        return at + 1

    def _say(self) -> None:
        body = "".join(self._body)
        try:
            arguments = orjson.dumps(read_arguments(body)).decode()
        except (ValueError, TypeError) as error:
            self._said.append(Unreadable(f"{self._name}({body})", str(error), cut=False))
        else:
            self._said += (CallStarted(self._name), Arguments(arguments), CallEnded())
        self._name = ""
        self._step = self._after_call

    def _after_call(self, text: str, at: int) -> int:
        match text[at]:
            case ",":
                self._step = self._read_name
            case "]":
                self.whole = True
            case mark if not mark.isspace():
                self.why = "a list of calls is not valid Python"
                return at
        return at + 1


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a pattern that always matches ends."""
    found = pattern.match(text, at)
    return found.end() if found else at
