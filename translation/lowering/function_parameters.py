"""Completes the schemas of functions, where clients leave out what upstreams require."""

from typing import Final

from translation.representation.json_types import Json

_EMPTY_OBJECT: Final[Json] = {"type": "object", "properties": {}}


def complete_parameters(parameters: Json | None) -> Json:
    """Returns an equivalent schema with a type, and with `properties` if it is of an object.

    OpenAI's servers refuse `{"type": "object"}` ("object schema missing properties") and `{}`. Many clients declare
    functions without parameters like that: Gemini's, and those of MCP servers.
    """
    parameters = parameters or {}
    if parameters.get("type", "object") != "object" or _EMPTY_OBJECT.keys() <= parameters.keys():
        return parameters
    # The client's keys keep their order: the prefix caches of upstreams depend on it.
    return parameters | {key: value for key, value in _EMPTY_OBJECT.items() if key not in parameters}
