"""The arguments of a call written in Python: keywords and literals, nothing that would have to be run."""

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
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "\n": ""}
_CONSTANTS: Final = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_DEEPEST: Final = 50


def read_arguments(text: str) -> dict[str, Any]:
    """What stands between the parentheses of a call. Raises ValueError for anything but keywords with literals."""
    return _Reader(text).arguments()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._kind = ""
        self._token = ""
        self._next()

    def arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._kind:
            name = self._token
            if self._kind != "name":
                raise ValueError("an argument has no name")
            self._next()
            self._expect("=")
            found[name] = self._value()
            if self._kind:
                self._expect(",")
        return found

    def _next(self) -> None:
        spaces = _SPACES.match(self._text, self._at)
        start = spaces.end() if spaces else self._at
        if start == len(self._text):
            self._kind = self._token = ""
            return
        found = _TOKEN.match(self._text, start)
        if found is None or found.lastgroup is None:
            raise ValueError("an argument is no literal")
        self._kind, self._token, self._at = found.lastgroup, found[0], found.end()

    def _expect(self, mark: str) -> None:
        if self._kind != "mark" or self._token != mark:
            raise ValueError(f"there is no {mark!r} where one belongs")
        self._next()

    def _is(self, mark: str) -> bool:
        return self._kind == "mark" and self._token == mark

    def _value(self) -> Any:
        kind, token = self._kind, self._token
        match kind:
            case "string":
                return self._strings()
            case "number":
                self._next()
                return _number(token)
            case "name" if token in _CONSTANTS:
                self._next()
                return _CONSTANTS[token]
            case "mark" if token in "([{":
                return self._container(token)
        raise ValueError("an argument is no literal")

    def _strings(self) -> str:
        strings: list[str] = []
        while self._kind == "string":
            strings.append(_string(self._token))
            self._next()
        return "".join(strings)

    def _container(self, opening: str) -> Any:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("the arguments are too deep")
        self._next()
        made = self._dict() if opening == "{" else self._sequence(opening)
        self._depth -= 1
        return made

    def _dict(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while not self._is("}"):
            if self._kind != "string":
                raise ValueError("a key is not a string")
            key = self._strings()
            self._expect(":")
            made[key] = self._value()
            if not self._is("}"):
                self._expect(",")
        self._next()
        return made

    def _sequence(self, opening: str) -> Any:
        closing = "]" if opening == "[" else ")"
        made: list[Any] = []
        is_tuple = False
        while not self._is(closing):
            made.append(self._value())
            if not self._is(closing):
                self._expect(",")
                is_tuple = True
        self._next()
        return made[0] if opening == "(" and len(made) == 1 and not is_tuple else made


def _number(token: str) -> int | float:
    if _INTEGER.fullmatch(token):
        return int(token)
    number = float(token)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _string(token: str) -> str:
    prefix = token[0].lower() if token[0] not in "'\"" else ""
    inner = token[len(prefix) + 1 : -1]
    return inner if prefix == "r" else _ESCAPE.sub(_unescaped, inner)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, code if code in "\\'\"" else found[0])
