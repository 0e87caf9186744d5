"""The arguments of a call as an object, and what is done where they are none."""

from string import ascii_letters
from typing import Any, Final

import orjson

from translation.representation.json_types import Json
from translation.representation.loss import Loss

RAW_ARGUMENTS_KEY = "raw_arguments"
"""The key for what is no object: it is kept as it is, never made into one that says something else."""

DEFAULT_MAX_ARGS_BYTES: Final = 200_000
"""The longest arguments that are read, where nothing else is said."""

_FENCE: Final = "```"
"""What models write around JSON for people, the first with a word for what it is."""


def arguments_text(given: object) -> str:
    """Arguments that a model's API gives as a value, as the text that clients get.

    A text is the model's own, and a blank one is no arguments: an empty object. All else is JSON, also what is no
    object: `fault_in` marks it.
    """
    if isinstance(given, str):
        return given if given.strip() else "{}"
    return orjson.dumps(given).decode()


def arguments_object(
    arguments: str, param: str, losses: list[Loss], *, max_bytes: int = DEFAULT_MAX_ARGS_BYTES
) -> Json:
    """The object that these arguments are. None at all is an empty one; what cannot be read is wrapped, with a loss.

    For upstreams that want past arguments as an object and not as text.
    """
    if not arguments.strip():
        return {}
    if not is_too_long(arguments, max_bytes):
        given = _parse_object(strip_code_fence(arguments))
        if isinstance(given, dict):
            return given
    losses.append(Loss(param, "wrapped"))
    return {RAW_ARGUMENTS_KEY: arguments}


def strip_code_fence(arguments: str) -> str:
    """The JSON object between the fences, where that is all there is; anything else as it is."""
    text = arguments.strip()
    if not (text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) > len(_FENCE)):
        return arguments
    inner = text[len(_FENCE) : -len(_FENCE)].lstrip(ascii_letters).strip()
    return inner if isinstance(_parse_object(inner), dict) else arguments


def arguments_fault(arguments: str, max_bytes: int) -> str | None:
    """Why these arguments cannot be read, in a few words; None where they can, or there are none."""
    if is_too_long(arguments, max_bytes):
        return f"the arguments are longer than {max_bytes} bytes"
    if not arguments.strip():
        return None
    given = _parse_object(arguments)
    if isinstance(given, dict):
        return None
    return "the arguments are not valid JSON" if given is _UNREADABLE else "the arguments are not an object"


def is_too_long(arguments: str, max_bytes: int) -> bool:
    """Whether arguments are longer than `max_bytes`."""
    # No character is more than four bytes: most are known to be short without being encoded.
    return len(arguments) * 4 > max_bytes and len(arguments.encode()) > max_bytes


_UNREADABLE: Final = object()


def _parse_object(arguments: str) -> Any:
    try:
        given = orjson.loads(arguments)
        orjson.dumps(given)  # which can nest less deep than what is read
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _UNREADABLE
    return given
