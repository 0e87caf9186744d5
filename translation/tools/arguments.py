"""Parses the arguments of calls, and reports or wraps arguments that are not a JSON object."""

import json
from decimal import Decimal, InvalidOperation
from functools import partial
from string import ascii_letters
from typing import Any, Final, NoReturn

import orjson

from translation.exact_numbers import parse_tool_data
from translation.representation.json_types import Json
from translation.representation.loss import Loss

RAW_ARGUMENTS_KEY = "raw_arguments"
"""The key that wraps arguments which are not an object. The text is kept unchanged; it is never repaired."""

DEFAULT_MAX_ARGS_BYTES: Final = 200_000
"""The default for the longest arguments that are parsed."""

_FENCE: Final = "```"
"""The code fence that some models write around JSON. The name of a language may follow the first one."""


def render_arguments(value: object) -> str:
    """Returns arguments that an upstream's API reports as a JSON value as the text that clients get.

    A string is returned unchanged, or as `{}` if it is blank. Any other value is returned as JSON, even if it is not an
    object: `find_arguments_fault` reports that.
    """
    if isinstance(value, str):
        return value if value.strip() else "{}"
    return orjson.dumps(value).decode()


def is_object(text: str) -> bool:
    """Returns whether a text is a JSON object."""
    return isinstance(_parse_object(text), dict)


def is_written_as_object(text: str) -> bool:
    """Returns whether a text has the form of a JSON object, whatever it holds.

    It may hold what the gateway does not read, as half a surrogate, a number without end or many levels.
    """
    try:
        return isinstance(json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse_constant), dict)
    except RecursionError:
        return text.strip().endswith("}")
    except ValueError:
        return False


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def is_same_json(one: str, other: str) -> bool:
    """Returns whether two texts are the same JSON value, however they are written.

    All digits count. An integer and a fraction are two values, because many programs take them for two types.
    """
    try:
        return bool(_read_exact_value(one) == _read_exact_value(other))
    except (orjson.JSONDecodeError, RecursionError):
        return False


def _read_exact_value(text: str) -> Any:
    """Parses JSON to a value that equals only the same value: in Python, `1 == True == 1.0`."""
    orjson.loads(text)  # it is stricter than `json`, which reads NaN
    return json.loads(text, parse_int=partial(_read_number, "integer"), parse_float=partial(_read_number, "fraction"))


def _read_number(kind: str, digits: str) -> tuple[str, Decimal | str]:
    try:
        return kind, Decimal(digits)
    except InvalidOperation:  # its exponent has more digits than any number that is used
        return kind, digits


def parse_past_arguments(
    arguments: str, param: str, losses: list[Loss], *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES
) -> Json:
    """Returns past arguments as an object, for upstreams that take them as an object and not as text.

    Blank arguments become an empty object. Arguments over `max_bytes`, and arguments that are not a JSON object, are
    wrapped under `RAW_ARGUMENTS_KEY`, which adds a loss at `param`.
    """
    if not arguments.strip():
        return {}
    if not is_too_long(arguments, max_bytes):
        value = _parse_object(strip_code_fence(arguments))
        if isinstance(value, dict):
            return value
    losses.append(Loss(param, "wrapped"))
    return {RAW_ARGUMENTS_KEY: arguments}


def strip_code_fence(arguments: str) -> str:
    """Returns the JSON object inside a code fence, if the text is nothing but that; any other text unchanged."""
    text = arguments.strip()
    if not (text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) > len(_FENCE)):
        return arguments
    inner = text[len(_FENCE) : -len(_FENCE)].lstrip(ascii_letters).strip()
    return inner if isinstance(_parse_object(inner), dict) else arguments


def find_arguments_fault(arguments: str, max_bytes: int) -> str | None:
    """Returns why these arguments cannot be used, in a few words. None if they are an object, or blank."""
    if is_too_long(arguments, max_bytes):
        return f"the arguments are longer than {max_bytes} bytes"
    if not arguments.strip():
        return None
    value = _parse_object(arguments)
    if isinstance(value, dict):
        return None
    return "the arguments are not valid JSON" if value is _UNREADABLE else "the arguments are not an object"


def is_too_long(arguments: str, max_bytes: int) -> bool:
    """Whether the arguments are longer than `max_bytes` as UTF-8."""
    # A character has at most four bytes, so most texts are known to be short without encoding them.
    return len(arguments) * 4 > max_bytes and len(arguments.encode()) > max_bytes


_UNREADABLE: Final = object()


def _parse_object(arguments: str) -> Any:
    try:
        value = parse_tool_data(arguments)
        orjson.dumps(value)  # orjson encodes less depth than it parses
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _UNREADABLE
    return value
