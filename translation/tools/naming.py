"""What upstreams want of a tool's name."""

import re
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.json_types import Json

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")


def function_name(tool: Json, param: str, *, longest: int) -> str:
    """The name of a function tool, as `tool_name` gives it. Raises Unrepresentable for a tool that is no function."""
    if tool.get("type") != "function":
        raise Unrepresentable(f"this model's API has no tools of type {tool.get('type')!r}", param=param)
    return tool_name(tool, param, longest=longest)


def tool_name(tool: Json, param: str, *, longest: int) -> str:
    """The name of a tool, in the letters that every upstream takes; `param` is the tool's place.

    Raises InvalidRequest for a name that is none.
    """
    name = tool.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > longest:
        raise InvalidRequest(
            f"Invalid tool name {name!r}: use 1 to {longest} letters, digits, underscores and dashes.",
            param=f"{param}.name",
        )
    return name
