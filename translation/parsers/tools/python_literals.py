"""Parses the arguments of a call in Python syntax: keywords with literals. Nothing is evaluated."""

import math
import re
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""(?P<string>[rRuU]?(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"))
      | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)
      | (?P<name>[^\W\d]\w*)
      | (?P<mark>[()\[\]{}:,=])""",
    re.VERBOSE | re.DOTALL,
)
_SPACES: Final = re.compile(r"\s*")
_INTEGER: Final = re.compile(r"[-+]?\d+")
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U(?:000[0-9a-fA-F]|0010)[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_CHARS: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "\n": ""}
_CONSTANTS: Final = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_MAX_DEPTH: Final = 50


class TokenBudget:
    """How many tokens may still be read of an answer. Each takes some microseconds of the event loop."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens

    def take(self) -> None:
        """Takes one. Raises ValueError if none is left."""
        self.left -= 1
        if self.left < 0:
            raise ValueError("the calls of this answer have too many values")


def parse_arguments(text: str, budget: TokenBudget) -> dict[str, Any]:
    """Returns the arguments between the parentheses of a call. Raises ValueError for any but keywords with literals,
    and beyond the budget."""
    return _ArgumentsReader(text, budget).read_all()


class _ArgumentsReader:
    def __init__(self, text: str, budget: TokenBudget) -> None:
        self._text = text
        self._budget = budget
        self._position = 0
        self._depth = 0
        self._kind = ""
        self._token = ""
        self._advance()

    def read_all(self) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        while self._kind:
            name = self._token
            if self._kind != "name":
                raise ValueError("an argument has no name")
            self._advance()
            self._expect("=")
            arguments[name] = self._read_value()
            if self._kind:
                self._expect(",")
        return arguments

    def _advance(self) -> None:
        spaces = _SPACES.match(self._text, self._position)
        start = spaces.end() if spaces else self._position
        if start == len(self._text):
            self._kind = self._token = ""
            return
        match = _TOKEN.match(self._text, start)
        if match is None or match.lastgroup is None:
            raise ValueError("an argument is not a literal")
        self._budget.take()
        self._kind, self._token, self._position = match.lastgroup, match[0], match.end()

    def _expect(self, mark: str) -> None:
        if self._kind != "mark" or self._token != mark:
            raise ValueError(f"{mark!r} is missing in the arguments")
        self._advance()

    def _at_mark(self, mark: str) -> bool:
        return self._kind == "mark" and self._token == mark

    def _read_value(self) -> Any:
        kind, token = self._kind, self._token
        match kind:
            case "string":
                return self._read_strings()
            case "number":
                self._advance()
                return _parse_number(token)
            case "name" if token in _CONSTANTS:
                self._advance()
                return _CONSTANTS[token]
            case "mark" if token in "([{":
                return self._read_container(token)
        raise ValueError("an argument is not a literal")

    def _read_strings(self) -> str:
        strings: list[str] = []
        while self._kind == "string":
            strings.append(_parse_string(self._token))
            self._advance()
        return "".join(strings)

    def _read_container(self, opening: str) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("the arguments are too deep")
        self._advance()
        value = self._read_dict() if opening == "{" else self._read_sequence(opening)
        self._depth -= 1
        return value

    def _read_dict(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while not self._at_mark("}"):
            if self._kind != "string":
                raise ValueError("a key is not a string")
            key = self._read_strings()
            self._expect(":")
            result[key] = self._read_value()
            if not self._at_mark("}"):
                self._expect(",")
        self._advance()
        return result

    def _read_sequence(self, opening: str) -> Any:
        closing = "]" if opening == "[" else ")"
        values: list[Any] = []
        is_tuple = False
        while not self._at_mark(closing):
            values.append(self._read_value())
            if not self._at_mark(closing):
                self._expect(",")
                is_tuple = True
        self._advance()
        return values[0] if opening == "(" and len(values) == 1 and not is_tuple else values


def _parse_number(token: str) -> int | float:
    if _INTEGER.fullmatch(token):
        return int(token)
    number = float(token)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _parse_string(token: str) -> str:
    prefix = token[0].lower() if token[0] not in "'\"" else ""
    inner = token[len(prefix) + 1 : -1]
    return inner if prefix == "r" else _ESCAPE.sub(_unescape, inner)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED_CHARS.get(code, code if code in "\\'\"" else match[0])
