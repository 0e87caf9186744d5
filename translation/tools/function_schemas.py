"""Descriptions and JSON schemas of the functions that stand for tools which a client runs. Models read them."""

from typing import Any

from translation.representation.json_types import Json

_STRING_LIST = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_POINT_PROPERTIES = {"x": {"type": "integer"}, "y": {"type": "integer"}}

SHELL_DESCRIPTION = "Run shell commands on the user's machine, in order, and get stdout, stderr and exit code of each."
LOCAL_SHELL_DESCRIPTION = "Run one command on the user's machine."
APPLY_PATCH_DESCRIPTION = (
    "Create, update or delete one file. `diff` is a V4A diff without file headers: context lines start with a space, "
    "removed lines with '-', added lines with '+', and '@@' starts a hunk; a new file has only '+' lines."
)
TOOL_SEARCH_DESCRIPTION = "Search for tools that are not loaded yet. The ones it finds can be called from then on."
COMPUTER_DESCRIPTION = "Act on the user's screen, one action after the other. The result is a screenshot."
INPUT_DESCRIPTION = "The whole input, as one string."


def build_closed_schema(properties: Json, *required: str) -> Json:
    """Returns the schema of an object that has these keys and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


FREEFORM_ARGUMENT = "input"
"""The argument with the whole input of a custom tool."""

FREEFORM_PARAMETERS = build_closed_schema(
    {FREEFORM_ARGUMENT: {"type": "string", "description": INPUT_DESCRIPTION}}, FREEFORM_ARGUMENT
)

SHELL_PARAMETERS = build_closed_schema(
    {"commands": _STRING_LIST, "timeout_ms": {"type": "integer"}, "max_output_length": {"type": "integer"}}, "commands"
)

LOCAL_SHELL_PARAMETERS = build_closed_schema(
    {
        "command": {**_STRING_LIST, "description": "The program and its arguments."},
        "working_directory": {"type": "string"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "timeout_ms": {"type": "integer"},
        "user": {"type": "string"},
    },
    "command",
)

APPLY_PATCH_PARAMETERS = build_closed_schema(
    {
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": {"type": "string"},
        "diff": {"type": "string", "description": "Empty when a file is deleted."},
    },
    "type",
    "path",
    "diff",
)

TOOL_SEARCH_PARAMETERS = build_closed_schema({"query": {"type": "string"}}, "query")

COMPUTER_ACTIONS: dict[str, dict[str, type[Any]]] = {
    "screenshot": {},
    "click": {"button": str, "x": int, "y": int},
    "double_click": {"x": int, "y": int},
    "drag": {"path": list},
    "keypress": {"keys": list},
    "move": {"x": int, "y": int},
    "scroll": {"x": int, "y": int, "scroll_x": int, "scroll_y": int},
    "type": {"text": str},
    "wait": {},
}
"""Computer action -> its required keys and their types. Source: the ComputerAction types of the official SDK."""

_ACTION_SCHEMA = build_closed_schema(
    {
        "type": {"type": "string", "enum": list(COMPUTER_ACTIONS)},
        **_POINT_PROPERTIES,
        "button": {"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
        "scroll_x": {"type": "integer"},
        "scroll_y": {"type": "integer"},
        "text": {"type": "string"},
        "keys": _STRING_LIST,
        "path": {"type": "array", "items": build_closed_schema(_POINT_PROPERTIES, "x", "y")},
    },
    "type",
)

COMPUTER_PARAMETERS = build_closed_schema(
    {"actions": {"type": "array", "items": _ACTION_SCHEMA, "minItems": 1}}, "actions"
)
COMPUTER_PREVIEW_PARAMETERS = build_closed_schema({"action": _ACTION_SCHEMA}, "action")
