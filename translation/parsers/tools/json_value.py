"""An incremental reader of one JSON value at the start of a longer text."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

_SPACES: Final = re.compile(r"[ \t\n\r]*")
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]*')
_WORD: Final = re.compile(r"[-+.0-9A-Za-z]*")
_LITERAL: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_MAX_WORD_LENGTH: Final = 400
"""The longest number, in characters. A longer one makes the value invalid, because no model means it."""

_HEX: Final = frozenset("0123456789abcdefABCDEF")

_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_Step: TypeAlias = Callable[[str, int], int]


class JsonValueReader:
    """Reads one value strictly: the first character that JSON does not allow makes it invalid.

    The one exception is control characters in strings, which are escaped, because models write unescaped line breaks in
    code. `is_complete` or `is_broken` is set when nothing more is read. The next value needs a new reader.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self.is_broken = False
        self._closers: list[str] = []
        self._word = ""
        self._digits = 0
        self._is_key = False
        self._escaped_parts: list[str] = []
        self._copied_to = 0
        self._step: _Step = self._read_value

    def feed(self, text: str, at: int) -> tuple[int, str]:
        """Reads on from the index `at`. Returns the index where reading stopped, and the JSON text up to it.

        Reading stops at the end of the text, after the value, at the character that ends a number, or at an invalid
        character.
        """
        self._escaped_parts, self._copied_to = [], at
        while at < len(text) and not self.is_complete and not self.is_broken:
            at = self._step(text, at)
        rest = text[self._copied_to : at]
        return at, "".join((*self._escaped_parts, rest)) if self._escaped_parts else rest

    def _read_value(self, text: str, at: int) -> int:
        at = match_end(_SPACES, text, at)
        match text[at : at + 1]:
            case "":
                return at
            case "{":
                self._closers.append("}")
                self._step = self._read_first_key
            case "[":
                self._closers.append("]")
                self._step = self._read_first_entry
            case '"':
                self._is_key = False
                self._step = self._read_string
            case _:
                self._step = self._read_word
                return at
        return at + 1

    def _read_first_entry(self, text: str, at: int) -> int:
        at = match_end(_SPACES, text, at)
        if text[at : at + 1] == "]":
            return self._close_container(at)
        if at < len(text):
            self._step = self._read_value
        return at

    def _read_first_key(self, text: str, at: int) -> int:
        at = match_end(_SPACES, text, at)
        return self._close_container(at) if text[at : at + 1] == "}" else self._read_key(text, at)

    def _read_key(self, text: str, at: int) -> int:
        at = match_end(_SPACES, text, at)
        if at == len(text):
            return at
        if text[at] != '"':
            return self._mark_broken(at)
        self._is_key = True
        self._step = self._read_string
        return at + 1

    def _read_colon(self, text: str, at: int) -> int:
        at = match_end(_SPACES, text, at)
        if at == len(text):
            return at
        if text[at] != ":":
            return self._mark_broken(at)
        self._step = self._read_value
        return at + 1

    def _read_after_value(self, text: str, at: int) -> int:
        at = match_end(_SPACES, text, at)
        if at == len(text):
            return at
        if text[at] == self._closers[-1]:
            return self._close_container(at)
        if text[at] != ",":
            return self._mark_broken(at)
        self._step = self._read_key if self._closers[-1] == "}" else self._read_value
        return at + 1

    def _read_string(self, text: str, at: int) -> int:
        at = match_end(_PLAIN, text, at)
        match text[at : at + 1]:
            case "":
                return at
            case '"':
                if self._is_key:
                    self._step = self._read_colon
                else:
                    self._end_value()
            case "\\":
                self._step = self._read_escape
            case control:
                self._escaped_parts += (text[self._copied_to : at], _ESCAPES.get(control) or f"\\u{ord(control):04x}")
                self._copied_to = at + 1
        return at + 1

    def _read_escape(self, text: str, at: int) -> int:
        if text[at] == "u":
            self._digits = 4
            self._step = self._read_hex
        elif text[at] in '"\\/bfnrt':
            self._step = self._read_string
        else:
            return self._mark_broken(at)
        return at + 1

    def _read_hex(self, text: str, at: int) -> int:
        if text[at] not in _HEX:
            return self._mark_broken(at)
        self._digits -= 1
        if not self._digits:
            self._step = self._read_string
        return at + 1

    def _read_word(self, text: str, at: int) -> int:
        end = min(match_end(_WORD, text, at), at + _MAX_WORD_LENGTH - len(self._word))
        self._word += text[at:end]
        if end < len(text):
            if _LITERAL.fullmatch(self._word) is None:
                return self._mark_broken(end)
            self._word = ""
            self._end_value()
        return end

    def _close_container(self, at: int) -> int:
        self._closers.pop()
        self._end_value()
        return at + 1

    def _end_value(self) -> None:
        if self._closers:
            self._step = self._read_after_value
        else:
            self.is_complete = True

    def _mark_broken(self, at: int) -> int:
        self.is_broken = True
        return at


def match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Returns the end of the match of a pattern that matches at every index."""
    match = pattern.match(text, at)
    return match.end() if match else at
