"""One JSON value in a longer text, found however the text is cut."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

_SPACES: Final = re.compile(r"[ \t\n\r]*")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]*')
_WORD: Final = re.compile(r"[-+.0-9A-Za-z]*")
_LITERAL: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_LONGEST_WORD: Final = 400
"""Characters of a number. What is longer breaks the value: no one means it."""

_HEX: Final = frozenset("0123456789abcdefABCDEF")

_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_Step: TypeAlias = Callable[[str, int], int]


class JsonValue:
    """Reads to the end of one value, strictly: the first character that no value can have there breaks it.

    Only control characters in strings are let through, escaped: models write line breaks in code as they are. The next
    value needs another reader. `whole` or `broken` when there is no more to read.
    """

    def __init__(self) -> None:
        self.whole = False
        self.broken = False
        self._closers: list[str] = []
        self._word = ""
        self._digits = 0
        self._is_key = False
        self._mended: list[str] = []
        self._mended_to = 0
        self._step: _Step = self._begin

    def feed(self, text: str, at: int) -> tuple[int, str]:
        """Read on from `at`: where reading stopped, and the JSON text up to there.

        It stops at the end of the text, after the value, at what ends a number, or at what breaks the value.
        """
        self._mended, self._mended_to = [], at
        while at < len(text) and not self.whole and not self.broken:
            at = self._step(text, at)
        rest = text[self._mended_to : at]
        return at, "".join((*self._mended, rest)) if self._mended else rest

    def _begin(self, text: str, at: int) -> int:
        at = _end(_SPACES, text, at)
        match text[at : at + 1]:
            case "":
                return at
            case "{":
                self._closers.append("}")
                self._step = self._first_key
            case "[":
                self._closers.append("]")
                self._step = self._first_entry
            case '"':
                self._is_key = False
                self._step = self._string
            case _:
                self._step = self._read_word
                return at
        return at + 1

    def _first_entry(self, text: str, at: int) -> int:
        at = _end(_SPACES, text, at)
        if text[at : at + 1] == "]":
            return self._close(at)
        if at < len(text):
            self._step = self._begin
        return at

    def _first_key(self, text: str, at: int) -> int:
        at = _end(_SPACES, text, at)
        return self._close(at) if text[at : at + 1] == "}" else self._key(text, at)

    def _key(self, text: str, at: int) -> int:
        at = _end(_SPACES, text, at)
        if at == len(text):
            return at
        if text[at] != '"':
            return self._break(at)
        self._is_key = True
        self._step = self._string
        return at + 1

    def _colon(self, text: str, at: int) -> int:
        at = _end(_SPACES, text, at)
        if at == len(text):
            return at
        if text[at] != ":":
            return self._break(at)
        self._step = self._begin
        return at + 1

    def _after(self, text: str, at: int) -> int:
        at = _end(_SPACES, text, at)
        if at == len(text):
            return at
        if text[at] == self._closers[-1]:
            return self._close(at)
        if text[at] != ",":
            return self._break(at)
        self._step = self._key if self._closers[-1] == "}" else self._begin
        return at + 1

    def _string(self, text: str, at: int) -> int:
        at = _end(_PLAIN, text, at)
        match text[at : at + 1]:
            case "":
                return at
            case '"':
                if self._is_key:
                    self._step = self._colon
                else:
                    self._ended()
            case "\\":
                self._step = self._escape
            case control:
                self._mended += (text[self._mended_to : at], _ESCAPES.get(control) or f"\\u{ord(control):04x}")
                self._mended_to = at + 1
        return at + 1

    def _escape(self, text: str, at: int) -> int:
        if text[at] == "u":
            self._digits = 4
            self._step = self._hex
        elif text[at] in '"\\/bfnrt':
            self._step = self._string
        else:
            return self._break(at)
        return at + 1

    def _hex(self, text: str, at: int) -> int:
        if text[at] not in _HEX:
            return self._break(at)
        self._digits -= 1
        if not self._digits:
            self._step = self._string
        return at + 1

    def _read_word(self, text: str, at: int) -> int:
        end = min(_end(_WORD, text, at), at + _LONGEST_WORD - len(self._word))
        self._word += text[at:end]
        if end < len(text):
            if _LITERAL.fullmatch(self._word) is None:
                return self._break(end)
            self._word = ""
            self._ended()
        return end

    def _close(self, at: int) -> int:
        self._closers.pop()
        self._ended()
        return at + 1

    def _ended(self) -> None:
        if self._closers:
            self._step = self._after
        else:
            self.whole = True

    def _break(self, at: int) -> int:
        self.broken = True
        return at


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a pattern that always matches ends."""
    found = pattern.match(text, at)
    return found.end() if found else at
