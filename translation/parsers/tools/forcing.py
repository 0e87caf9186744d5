"""How a model is made to call: words put in its mouth, and the schema of what it writes after them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from translation.parsers.tools import hermes, llama, mistral
from translation.representation.json_types import Json
from translation.tools.declared_functions import Declared, declared

_OPENINGS: Final = {"hermes": hermes.OPENING, "llama": llama.OPENING, "mistral": mistral.MARKER}
_STOPS: Final = {"hermes": hermes.CLOSING, "llama": llama.CLOSING}


class Forced(NamedTuple):
    """`prefix`, then a value of `schema`, then `suffix` make one call as its parser reads it."""

    prefix: str
    schema: Json
    suffix: str


def forced(parser: str, tools: Sequence[Json]) -> Forced | None:
    """A call of one of these tools, written as this parser reads it; None where that cannot be forced so.

    `tools` are those that may be called, in chat's form or Responses'.
    """
    functions = list(declared(tools))
    force = _FORCES.get(parser)
    return force(functions) if force is not None and functions else None


def opening(parser: str) -> str | None:
    """The string that begins a call and no other answer; None where there is no such string."""
    return _OPENINGS.get(parser)


def stop(parser: str) -> str | None:
    """The string after which a block of calls is complete; None where there is no such string."""
    return _STOPS.get(parser)


def _force_hermes(functions: Sequence[Declared]) -> Forced:
    return Forced(f"{hermes.OPENING}\n", _one_of(functions, "arguments"), f"\n{hermes.CLOSING}")


def _force_llama(functions: Sequence[Declared]) -> Forced | None:
    """The name is no JSON: only one function can be forced."""
    if len(functions) > 1:
        return None
    name, _, parameters = functions[0]
    return Forced(f"{llama.OPENING}{name}>", parameters, llama.CLOSING)


def _force_llama3_json(functions: Sequence[Declared]) -> Forced:
    return Forced("", _one_of(functions, "parameters"), "")


def _force_mistral(functions: Sequence[Declared]) -> Forced:
    return Forced(f"{mistral.MARKER} [", _one_of(functions, "arguments"), "]")


def _force_json(functions: Sequence[Declared]) -> Forced:
    return Forced("", _one_of(functions, "arguments"), "")


_FORCES: Final[Mapping[str, Callable[[Sequence[Declared]], Forced | None]]] = {
    "hermes": _force_hermes,
    "llama": _force_llama,
    "llama3_json": _force_llama3_json,
    "mistral": _force_mistral,
    "json": _force_json,
}


def _one_of(functions: Sequence[Declared], key: str) -> Json:
    if len(functions) == 1:
        return _call(functions[0], key, f"#/properties/{key}")
    return {"anyOf": [_call(each, key, f"#/anyOf/{at}/properties/{key}") for at, each in enumerate(functions)]}


def _call(function: Declared, key: str, place: str) -> Json:
    return {
        "type": "object",
        "properties": {"name": {"const": function.name}, key: _moved(function.parameters, place)},
        "required": ["name", key],
        "additionalProperties": False,
    }


def _moved(schema: Any, place: str) -> Any:
    """A schema as it is said at another place of a larger one: references within it start from there."""
    match schema:
        case {"$ref": str(target), **rest} if target.startswith("#"):
            return {"$ref": place + target[1:], **_moved(rest, place)}
        case dict():
            return {key: _moved(value, place) for key, value in schema.items()}
        case list():
            return [_moved(value, place) for value in schema]
    return schema
