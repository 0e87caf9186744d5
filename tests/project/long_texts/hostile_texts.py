"""Texts on which a regular expression may take long: long runs of what its repetitions match, and then no match."""

import re
from collections.abc import Iterator, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]  # the only parser of patterns that there is
from typing import Any, Final, NamedTuple

_ALPHABET: Final = " \n\ta0A_é中\"'\\/<>[]{}()=:;,.-+%&!?@#$*`|~^\x00\u2003\ud800"

COMMON_UNITS: Final = (" ", "\n", " \n", "\t", "\u2003", '"', "'", "\\", '\\"', "0", "a", "_", "[", "<", "`", "{", "}")
_MORE_UNITS: Final = ("(", ")", ",", ".", "-", "=", "<a", "a ", "0,", "a.", "%2", ";a=", "/", "&a", "a:")

_LONG: Final = 50
"""Repetitions with a smaller limit take no long time."""


class HostileText(NamedTuple):
    """A text of any length: a beginning, a unit that is repeated, and an end that few patterns match."""

    beginning: str
    unit: str
    end: str

    def build(self, size: int) -> str:
        return self.beginning + (self.unit * (size // len(self.unit) + 1))[:size] + self.end


def list_hostile_texts(pattern: re.Pattern[Any]) -> Iterator[HostileText]:
    """Yields the hostile texts of a pattern."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    tree = _parser.parse(text, pattern.flags & ~(0 if isinstance(source, str) else re.UNICODE))
    pumps: dict[tuple[str, str], None] = dict.fromkeys(("", unit) for unit in (*COMMON_UNITS, *_MORE_UNITS))
    for generous in (False, True):
        whole = _write_match(tree, pumps, "", generous)
        for end in range(1, len(whole) + 1):
            pumps["", whole[:end]] = None
        for unit in COMMON_UNITS:
            pumps[whole, unit] = None
    for beginning, unit in [*pumps]:
        if unit:
            yield HostileText(beginning, unit, "\x01")
            yield HostileText(beginning, unit, "")
            if beginning:
                yield HostileText("", beginning + unit, "\x01")


def _write_match(items: Any, pumps: dict[tuple[str, str], None], before: str, generous: bool) -> str:
    """Returns a text that the items match. Adds to `pumps` what their repetitions match, with the text before it."""
    written = ""
    for operation, argument in items:
        match str(operation):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                written += _choose_character(str(operation), argument)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = argument
                unit = _write_match(inner, pumps, before + written, generous)
                if int(most) > _LONG:
                    for each in (unit, *_list_units(inner)):
                        pumps[before + written, each] = None
                written += unit * max(least, generous)
            case "SUBPATTERN":
                written += _write_match(argument[3], pumps, before + written, generous)
            case "ATOMIC_GROUP":
                written += _write_match(argument, pumps, before + written, generous)
            case "BRANCH":
                texts = [_write_match(branch, pumps, before + written, generous) for branch in argument[1]]
                written += texts[-1] if generous else texts[0]
    return written


def _list_units(items: Sequence[Any]) -> Iterator[str]:
    """Yields texts that one repetition of the items matches: of each branch, and of each common character in a set."""
    for operation, argument in items:
        match str(operation):
            case "BRANCH":
                yield from (_write_match(branch, {}, "", False) for branch in argument[1])
            case "SUBPATTERN":
                yield from _list_units(argument[3])
            case "IN":
                yield from (each for each in ' \n0a"' if _has_character(argument, each))


def _choose_character(operation: str, argument: Any) -> str:
    match operation:
        case "LITERAL":
            return chr(argument)
        case "NOT_LITERAL":
            return next(each for each in _ALPHABET if ord(each) != argument)
        case "ANY":
            return "a"
        case _:
            own = [chr(value if kind is _constants.LITERAL else value[0]) for kind, value in argument if _is_own(kind)]
            return next(each for each in (*_ALPHABET, *own) if _has_character(argument, each))


def _is_own(kind: Any) -> bool:
    return kind in (_constants.LITERAL, _constants.RANGE)


def _has_character(members: Sequence[Any], character: str) -> bool:
    """Whether a set has a character."""
    is_negated, found, code = False, False, ord(character)
    for kind, value in members:
        match str(kind):
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                found = found or code == value
            case "RANGE":
                found = found or value[0] <= code <= value[1]
            case "CATEGORY":
                name = str(value).removeprefix("CATEGORY_")
                classes = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
                is_in = re.match(classes[name.removeprefix("NOT_")], character) is not None
                found = found or is_in != name.startswith("NOT_")
    return found != is_negated
