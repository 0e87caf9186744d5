"""The format of Llama 3.2 and Llama 4, calls in Python syntax: the answer begins with `[f(a=1, b="x"), g()]`."""

import re
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import orjson

from translation.parsers.tools.json_value import match_end
from translation.parsers.tools.leading import LeadingParser
from translation.parsers.tools.parser_output import CallArguments, CallEnded, CallStarted, MalformedCall, ParserOutput
from translation.parsers.tools.python_literals import TokenBudget, parse_arguments

_SPACES: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"[\w.-]*")
_MAX_NAME_LENGTH: Final = 200
_MAX_BODY_CHARS: Final = 1_000_000
"""The longest arguments that are parsed. Escapes may take five times the bytes of what they stand for."""

_MAX_TOKENS: Final = 100_000
"""The most tokens of the arguments of all calls of an answer."""

_PLAIN: Final = re.compile(r"""[^'"()\[\]{}]*""")
_IN_STRING: Final = {"'": re.compile(r"[^'\\]*"), '"': re.compile(r'[^"\\]*')}

_Step: TypeAlias = Callable[[str, int], int]


class PythonicParser(LeadingParser):
    """Parses calls whose arguments are keywords with literals. A call is emitted when it is complete."""

    def __init__(self) -> None:
        super().__init__(values="[", reader=partial(PythonCallReader, TokenBudget(_MAX_TOKENS)))


class PythonCallReader:
    """Reads one list of calls, each a name and parentheses. A call with invalid arguments becomes a MalformedCall."""

    def __init__(self, budget: TokenBudget) -> None:
        """`budget` is that of the answer, which may have several lists."""
        self.is_complete = False
        self.fault = ""
        self.may_be_call = False
        self._output: list[ParserOutput] = []
        self._name = ""
        self._body: list[str] = []
        self._body_chars = 0
        self._budget = budget
        self._depth = 0
        self._quote = ""
        self._step: _Step = self._read_opening

    @property
    def has_started_call(self) -> bool:
        """Whether the list holds at least one call."""
        return self.may_be_call

    @property
    def is_between_calls(self) -> bool:
        """Whether all calls so far are complete."""
        return self._step == self._read_after_call

    def feed(self, text: str, at: int, output: list[ParserOutput]) -> int:
        """See CallValueReader."""
        self._output = output
        while at < len(text) and not self.is_complete and not self.fault:
            at = self._step(text, at)
        return at

    def _read_opening(self, text: str, at: int) -> int:
        self._step = self._read_name
        return at + 1

    def _read_name(self, text: str, at: int) -> int:
        if not self._name and (end := match_end(_SPACES, text, at)) > at:
            return end
        end = min(match_end(_NAME, text, at), at + _MAX_NAME_LENGTH - len(self._name))
        if end > at:
            self._name += text[at:end]
            return end
        if text[at] == "(" and self._name:
            self.may_be_call = True
            self._body = []
            self._body_chars = 0
            self._depth = 1
            self._step = self._read_body
            return at + 1
        if text[at] == "]" and self.may_be_call and not self._name:
            self.is_complete = True
            return at + 1
        self.fault = "a list of calls is not valid Python"
        return at

    def _read_body(self, text: str, at: int) -> int:
        if (end := match_end(_PLAIN, text, at)) > at:
            self._add_to_body(text[at:end])
            return end
        mark = text[at]
        if mark in "'\"":
            self._quote = mark
            self._step = self._read_string
        else:
            self._depth += 1 if mark in "([{" else -1
        if self._depth:
            self._add_to_body(mark)
        else:
            self._emit_call()
        return at + 1

    def _read_string(self, text: str, at: int) -> int:
        if (end := match_end(_IN_STRING[self._quote], text, at)) > at:
            self._add_to_body(text[at:end])
            return end
        self._add_to_body(text[at])
        self._step = self._read_escaped if text[at] == "\\" else self._read_body
        return at + 1

    def _read_escaped(self, text: str, at: int) -> int:
        self._add_to_body(text[at])
        self._step = self._read_string
        return at + 1

    def _add_to_body(self, text: str) -> None:
        self._body_chars += len(text)
        if self._body_chars <= _MAX_BODY_CHARS:
            self._body.append(text)

    def _emit_call(self) -> None:
        body = "".join(self._body)
        try:
            if self._body_chars > _MAX_BODY_CHARS:
                raise ValueError(f"the arguments are longer than {_MAX_BODY_CHARS} characters")
            arguments = orjson.dumps(parse_arguments(body, self._budget)).decode()
        except (ValueError, TypeError) as error:
            self._output.append(MalformedCall(f"{self._name}({body})", str(error), truncated=False))
        else:
            self._output += (CallStarted(self._name), CallArguments(arguments), CallEnded())
        self._name = ""
        self._step = self._read_after_call

    def _read_after_call(self, text: str, at: int) -> int:
        match text[at]:
            case ",":
                self._step = self._read_name
            case "]":
                self.is_complete = True
            case mark if not mark.isspace():
                self.fault = "a list of calls is not valid Python"
                return at
        return at + 1
