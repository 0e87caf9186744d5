"""Reads the function tools of a request, in the form of chat or of Responses."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from translation.representation.json_types import Json


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
