"""The tools that a choice speaks of."""

from collections.abc import Sequence
from typing import Any

from translation.errors import InvalidRequest
from translation.json_types import Json


def is_meant(tool: Json, choice: Json) -> bool:
    """Whether a choice, or one entry of `allowed_tools`, is of this tool."""
    return (tool.get("type"), tool.get("name")) == (choice.get("type"), choice.get("name"))


def allowed_tools(tools: Sequence[Json], allowed: Sequence[Any]) -> list[Json]:
    """The tools that `allowed_tools` lists. Raises InvalidRequest where it lists one that is not there."""
    for choice in allowed:
        if not any(is_meant(tool, choice) for tool in tools):
            raise InvalidRequest(
                f"tool_choice allows {choice.get('name')!r}, which is not in tools.", param="tool_choice.tools"
            )
    return [tool for tool in tools if any(is_meant(tool, choice) for choice in allowed)]
