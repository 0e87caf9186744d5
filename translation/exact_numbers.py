"""Parses JSON so that numbers in the arguments and results of tools keep all their digits.

orjson reads an integer of more than 64 bits, and a fraction with more digits than a double has, as the nearest double.
A tool that gets such a number would be called with another one. So these numbers become fragments, which orjson writes
as they were, and nothing else does anything with. All other numbers are what orjson makes of them.
"""

import json
import re
from typing import Any, Final

import orjson

_TOOL_DATA_KEYS: Final = frozenset({"args", "arguments", "input", "functionResponse"})
"""Keys whose objects are data of tools, in the APIs that do not have it as text."""

_TOOL_DATA_MARKS: Final = tuple(f'"{key}":{gap}{{'.encode() for key in sorted(_TOOL_DATA_KEYS) for gap in ("", " "))
"""The beginnings of tool data. Most requests have no object under any key."""

_LONG_NUMBER: Final = re.compile(r"[0-9][0-9.]{15,}")
_LONG_NUMBER_BYTES: Final = re.compile(_LONG_NUMBER.pattern.encode())

_DIGITS_AS_ZEROS: Final = bytes(0x30 if chr(byte) in "0123456789." else 0x20 for byte in range(256))

_LONG_RUN: Final = b"0" * 16
"""What each long number contains, once digits and points are zeros."""

_SAMPLE_STEP: Final = 5
_SAMPLED_RUN: Final = b"000"
"""What every fifth byte of a long number, which has 16 bytes or more, contains once digits and points are zeros."""


class _Number(str):
    """A number as its text."""

    __slots__ = ()


def parse_with_tool_data(data: bytes) -> Any:
    """Parses a request, a reply or a part of one. Raises orjson.JSONDecodeError."""
    parsed = orjson.loads(data)
    return _parse_exactly(data, parsed, is_tool_data=False) if has_exact_numbers(data) else parsed


def has_exact_numbers(data: bytes) -> bool:
    """Whether JSON may have data of tools with long numbers, so that parsing it takes twenty times as long."""
    # Few bodies have so many digits in a row, and many have some in a row, such as times. To look at every fifth byte
    # takes a twentieth of the time of looking for the keys, and to look at every byte a fifth.
    return (
        data[::_SAMPLE_STEP].translate(_DIGITS_AS_ZEROS).find(_SAMPLED_RUN) >= 0
        and data.translate(_DIGITS_AS_ZEROS).find(_LONG_RUN) >= 0
        and any(map(data.count, _TOOL_DATA_MARKS))
        and _LONG_NUMBER_BYTES.search(data) is not None
    )


def parse_tool_data(text: str) -> Any:
    """Parses arguments or a result of a tool. Raises orjson.JSONDecodeError."""
    parsed = orjson.loads(text)
    return parsed if _LONG_NUMBER.search(text) is None else _parse_exactly(text, parsed, is_tool_data=True)


def _parse_exactly(text: str | bytes, parsed: Any, *, is_tool_data: bool) -> Any:
    """Parses JSON that orjson has `parsed`, with its digits. Nesting that is too deep for that is left as parsed."""
    try:
        return _settle(json.loads(text, parse_int=_Number, parse_float=_Number), is_tool_data)
    except RecursionError:
        return parsed


def _settle(value: Any, is_tool_data: bool) -> Any:
    """Returns a value in which each number is what it is to be."""
    match value:
        case _Number():
            return _settle_number(value, is_tool_data)
        case dict():
            return {key: _settle(inner, is_tool_data or _begins_tool_data(key, inner)) for key, inner in value.items()}
        case list():
            return [_settle(inner, is_tool_data) for inner in value]
    return value


def _begins_tool_data(key: str, value: Any) -> bool:
    return key in _TOOL_DATA_KEYS and isinstance(value, dict)


def _settle_number(number: _Number, is_tool_data: bool) -> Any:
    text = number.encode()
    nearest = orjson.loads(text)
    if not is_tool_data or _LONG_NUMBER.search(number) is None or orjson.dumps(nearest) == text:
        return nearest
    return orjson.Fragment(text)
