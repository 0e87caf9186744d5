"""Forces a model to call a tool: a prefix of its answer, and the JSON schema of the text that follows."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from translation.parsers.tools import mistral
from translation.parsers.tools.block_formats import HERMES_CLOSING, HERMES_OPENING, LLAMA_CLOSING, LLAMA_OPENING
from translation.representation.json_types import Json
from translation.tools.declared_functions import DeclaredFunction, functions_of

_OPENINGS: Final = {"hermes": HERMES_OPENING, "llama": LLAMA_OPENING, "mistral": mistral.MARKER}
_STOPS: Final = {"hermes": HERMES_CLOSING, "llama": LLAMA_CLOSING}


class ForcedCall(NamedTuple):
    """The form of one forced call: `prefix`, a JSON value that matches `schema`, `suffix`."""

    prefix: str
    schema: Json
    suffix: str


def force_call(parser: str, tools: Sequence[Json]) -> ForcedCall | None:
    """Returns the form of a call of one of these tools, in the format of this parser.

    Returns None if a call cannot be forced in that format, or no tool is a function. `tools` are those that may be
    called, in the form of chat or of Responses.
    """
    functions = list(functions_of(tools))
    force = _CALL_FORCERS.get(parser)
    return force(functions) if force is not None and functions else None


def force_text_call(parser: str, function: str, argument: str) -> ForcedCall | None:
    """Returns the form of a call whose only argument is a string: `prefix`, the inside of a JSON string, `suffix`.

    The schema is empty, because no JSON value is between prefix and suffix. Returns None if a call cannot be forced in
    that format.
    """
    if parser not in _TEXT_CALL_FORMS:
        return None
    opening, key, closing = _TEXT_CALL_FORMS[parser]
    name, argument = json.dumps(function), json.dumps(argument)
    if key is None:
        return ForcedCall(f'{opening}{function}>{{{argument}: "', {}, f'"}}{closing}')
    return ForcedCall(f'{opening}{{"name": {name}, "{key}": {{{argument}: "', {}, f'"}}}}{closing}')


def call_opening_of(parser: str) -> str | None:
    """Returns the string that begins a call and nothing else, or None if the format has no such string."""
    return _OPENINGS.get(parser)


def block_stop_of(parser: str) -> str | None:
    """Returns the string that ends a block of calls, or None if the format has no such string."""
    return _STOPS.get(parser)


def _force_hermes(functions: Sequence[DeclaredFunction]) -> ForcedCall:
    return ForcedCall(f"{HERMES_OPENING}\n", _any_call_schema(functions, "arguments"), f"\n{HERMES_CLOSING}")


def _force_llama(functions: Sequence[DeclaredFunction]) -> ForcedCall | None:
    """The name is outside the JSON, so the schema cannot choose among several functions."""
    if len(functions) > 1:
        return None
    name, _, parameters = functions[0]
    return ForcedCall(f"{LLAMA_OPENING}{name}>", parameters, LLAMA_CLOSING)


def _force_llama3_json(functions: Sequence[DeclaredFunction]) -> ForcedCall:
    return ForcedCall("", _any_call_schema(functions, "parameters"), "")


def _force_mistral(functions: Sequence[DeclaredFunction]) -> ForcedCall:
    return ForcedCall(f"{mistral.MARKER} [", _any_call_schema(functions, "arguments"), "]")


def _force_json(functions: Sequence[DeclaredFunction]) -> ForcedCall:
    return ForcedCall("", _any_call_schema(functions, "arguments"), "")


_TEXT_CALL_FORMS: Final[Mapping[str, tuple[str, str | None, str]]] = {
    "hermes": (f"{HERMES_OPENING}\n", "arguments", f"\n{HERMES_CLOSING}"),
    "llama": (LLAMA_OPENING, None, LLAMA_CLOSING),
    "llama3_json": ("", "parameters", ""),
    "mistral": (f"{mistral.MARKER} [", "arguments", "]"),
    "json": ("", "arguments", ""),
}
"""Parser -> the text before the call, the key of its arguments (None: the name is outside the JSON), the text after
it."""

_CALL_FORCERS: Final[Mapping[str, Callable[[Sequence[DeclaredFunction]], ForcedCall | None]]] = {
    "hermes": _force_hermes,
    "llama": _force_llama,
    "llama3_json": _force_llama3_json,
    "mistral": _force_mistral,
    "json": _force_json,
}


def _any_call_schema(functions: Sequence[DeclaredFunction], key: str) -> Json:
    if len(functions) == 1:
        return _call_schema(functions[0], key, f"#/properties/{key}")
    return {
        "anyOf": [
            _call_schema(function, key, f"#/anyOf/{at}/properties/{key}") for at, function in enumerate(functions)
        ]
    }


def _call_schema(function: DeclaredFunction, key: str, place: str) -> Json:
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, key: _rebase_references(function.parameters, place)},
        "required": ["name", key],
        "additionalProperties": False,
    }


def _rebase_references(schema: Any, place: str) -> Any:
    """Returns a schema with its references rebased to `place`, the path where it is in a larger schema."""
    match schema:
        case {"$ref": str(target), **rest} if target.startswith("#"):
            return {"$ref": place + target[1:], **_rebase_references(rest, place)}
        case dict():
            return {key: _rebase_references(value, place) for key, value in schema.items()}
        case list():
            return [_rebase_references(value, place) for value in schema]
    return schema
