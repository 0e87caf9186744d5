"""Reads the functions that requests declare, in the form of chat or of Responses, and completes their schemas."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from translation.representation.json_types import Json

_EMPTY_OBJECT: Final[Json] = {"type": "object", "properties": {}}


class DeclaredFunction(NamedTuple):
    """A function that a model may call."""

    name: str
    description: str | None
    parameters: Json


def functions_of(tools: Sequence[Json]) -> Iterator[DeclaredFunction]:
    """Yields the functions among these tools, nested as in chat or flat as in Responses. Other tools are left out.

    A function without parameters gets the schema of an object without properties.
    """
    for tool in tools:
        function = tool.get("function", tool)
        if tool.get("type") == "function" and isinstance(function, dict) and isinstance(function.get("name"), str):
            description, parameters = function.get("description"), function.get("parameters")
            yield DeclaredFunction(
                function["name"],
                description if isinstance(description, str) else None,
                parameters if isinstance(parameters, dict) and parameters else {"type": "object", "properties": {}},
            )


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
