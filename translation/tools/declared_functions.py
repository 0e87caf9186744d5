"""The function tools of a request, in whichever API's form they are written."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from translation.representation.json_types import Json


class DeclaredFunction(NamedTuple):
    """A function a model may call."""

    name: str
    description: str | None
    parameters: Json


def functions_of(tools: Sequence[Json]) -> Iterator[DeclaredFunction]:
    """The functions among these tools, nested as chat has them or flat as Responses has them; others are left out."""
    for tool in tools:
        function = tool.get("function", tool)
        if tool.get("type") == "function" and isinstance(function, dict) and isinstance(function.get("name"), str):
            description, parameters = function.get("description"), function.get("parameters")
            yield DeclaredFunction(
                function["name"],
                description if isinstance(description, str) else None,
                parameters if isinstance(parameters, dict) and parameters else {"type": "object", "properties": {}},
            )
