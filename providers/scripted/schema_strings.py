"""Builds texts for a JSON schema's string keywords. Patterns are parsed and never matched, because a client could send
one whose matching never ends."""

import re
from collections.abc import Callable
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

MAX_INSTANCE_SIZE = 10_000
"""The most characters of a text. A schema that requires more is a mistake or an attack."""


class UnsatisfiableSchema(ValueError):
    """No value is known for the schema. The message names the keyword."""


class ValueTooLarge(UnsatisfiableSchema):
    """The schema requires too large a value. To try others instead would take as long for each."""


def build_text(*, min_length: int, max_length: int, text_format: str | None, pattern: str | None) -> str:
    """Returns a text of this length, format and pattern. Raises UnsatisfiableSchema if none is known."""
    if min_length > min(max_length, MAX_INSTANCE_SIZE):
        raise UnsatisfiableSchema(f"minLength is larger than {min(max_length, MAX_INSTANCE_SIZE)}")
    if pattern is not None:
        text = _text_for_pattern(pattern, min_length)
    elif text_format in _FORMAT_EXAMPLES:
        text = _FORMAT_EXAMPLES[text_format]
    else:
        text = _DEFAULT_TEXT[:max_length].ljust(min_length, _DEFAULT_TEXT[-1])
    if not min_length <= len(text) <= max_length:
        raise UnsatisfiableSchema(f"no text of that length is known for {'pattern' if pattern else 'format'}")
    return text


_DEFAULT_TEXT = "string"

_FORMAT_EXAMPLES = {
    "date-time": "1970-01-01T00:00:00Z",
    "date": "1970-01-01",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "user@example.com",
    "idn-email": "user@example.com",
    "hostname": "example.com",
    "idn-hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com/",
    "iri": "https://example.com/",
    "uri-reference": "/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "",
    "regex": "",
}


def _text_for_pattern(pattern: str, shortest: int) -> str:
    try:
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError):
        raise UnsatisfiableSchema(f"pattern {pattern!r} is not supported") from None
    text = _PatternWriter(pattern, 0).write(parsed)
    if len(text) < shortest:
        text = _PatternWriter(pattern, shortest - len(text)).write(parsed)
    # A pattern without an anchor at its end allows more text after it.
    return text if pattern.endswith("$") else text.ljust(shortest, _DEFAULT_TEXT[-1])


class _PatternWriter:
    """Writes a text for a parsed pattern: with the fewest repetitions, and `spare` further ones where the pattern
    allows them."""

    def __init__(self, pattern: str, spare: int) -> None:
        self._pattern = pattern
        self._spare = spare
        self._groups: dict[int, str] = {}

    def write(self, parsed: Any) -> str:
        text = ""
        for code, argument in parsed:
            text += self._write_token(code, argument)
            self._require_small(text)
        return text

    def _write_token(self, code: Any, argument: Any) -> str:
        if code is codes.LITERAL:
            return chr(argument)
        if code in (codes.ANY, codes.NOT_LITERAL, codes.IN):
            return self._pick_character(code, argument)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self._write_repeat(*argument)
        if code is codes.SUBPATTERN:
            self._groups[argument[0]] = text = self.write(argument[3])
            return text
        if code is codes.BRANCH:
            return self.write(argument[1][0])
        if code is codes.ATOMIC_GROUP:
            return self.write(argument)
        if code is codes.GROUPREF:
            return self._groups[argument]
        if code is codes.AT and argument in (codes.AT_BEGINNING, codes.AT_END, codes.AT_BEGINNING_STRING):
            return ""
        raise UnsatisfiableSchema(f"pattern {self._pattern!r} is not supported")

    def _write_repeat(self, least: int, most: int, parsed: Any) -> str:
        count = least + min(self._spare, int(most) - least)
        self._spare -= count - least
        text = self.write(parsed)
        self._require_small(text, count)
        return text * count

    def _require_small(self, text: str, count: int = 1) -> None:
        if len(text) * count > MAX_INSTANCE_SIZE:
            raise UnsatisfiableSchema(f"pattern {self._pattern!r:.200} requires too large a value")

    def _pick_character(self, code: Any, argument: Any) -> str:
        for character in map(chr, _PREFERRED_CODE_POINTS):
            if code is codes.ANY or _is_admitted(character, code, argument):
                return character
        raise UnsatisfiableSchema(f"pattern {self._pattern!r} is not supported")


_PREFERRED_CODE_POINTS = [*b"aA0", *range(0x20, 0x7F), *range(0xA0, 0x2000)]


def _is_admitted(character: str, code: Any, argument: Any) -> bool:
    if code is codes.NOT_LITERAL:
        return bool(ord(character) != argument)
    negated = argument[0][0] is codes.NEGATE
    members = argument[1:] if negated else argument
    return negated != any(_is_member(character, kind, member) for kind, member in members)


def _is_member(character: str, kind: Any, member: Any) -> bool:
    if kind is codes.LITERAL:
        return bool(ord(character) == member)
    if kind is codes.RANGE:
        return bool(member[0] <= ord(character) <= member[1])
    return _CATEGORIES[str(member)](character)


_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "CATEGORY_DIGIT": lambda character: character in "0123456789",
    "CATEGORY_NOT_DIGIT": lambda character: character not in "0123456789",
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda character: not character.isspace(),
    "CATEGORY_WORD": lambda character: character == "_" or (character.isalnum() and character.isascii()),
    "CATEGORY_NOT_WORD": lambda character: character != "_" and not (character.isalnum() and character.isascii()),
}
