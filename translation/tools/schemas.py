"""What a model is told of the tools a client runs: descriptions and JSON schemas of the functions they ride on."""

from typing import Any

from translation.representation.json_types import Json

_STRINGS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_POINT = {"x": {"type": "integer"}, "y": {"type": "integer"}}

SHELL = "Run shell commands on the user's machine, in order, and get stdout, stderr and exit code of each."
LOCAL_SHELL = "Run one command on the user's machine."
APPLY_PATCH = (
    "Create, update or delete one file. `diff` is a V4A diff without file headers: context lines start with a space, "
    "removed lines with '-', added lines with '+', and '@@' starts a hunk; a new file has only '+' lines."
)
TOOL_SEARCH = "Search for tools that are not loaded yet. The ones it finds can be called from then on."
COMPUTER = "Act on the user's screen, one action after the other. The result is a screenshot."
INPUT = "The whole input, as one string."


def record(properties: Json, *required: str) -> Json:
    """The schema of an object that has these keys and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


FREEFORM_PARAMETERS = record({"input": {"type": "string", "description": INPUT}}, "input")

SHELL_PARAMETERS = record(
    {"commands": _STRINGS, "timeout_ms": {"type": "integer"}, "max_output_length": {"type": "integer"}}, "commands"
)

LOCAL_SHELL_PARAMETERS = record(
    {
        "command": {**_STRINGS, "description": "The program and its arguments."},
        "working_directory": {"type": "string"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "timeout_ms": {"type": "integer"},
        "user": {"type": "string"},
    },
    "command",
)

APPLY_PATCH_PARAMETERS = record(
    {
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": {"type": "string"},
        "diff": {"type": "string", "description": "Empty when a file is deleted."},
    },
    "type",
    "path",
    "diff",
)

TOOL_SEARCH_PARAMETERS = record({"query": {"type": "string"}}, "query")

ACTIONS: dict[str, dict[str, type[Any]]] = {
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
"""Computer action -> the keys it cannot do without. Source: the official SDK's ComputerAction types."""

_ACTION = record(
    {
        "type": {"type": "string", "enum": list(ACTIONS)},
        **_POINT,
        "button": {"type": "string", "enum": ["left", "right", "wheel", "back", "forward"]},
        "scroll_x": {"type": "integer"},
        "scroll_y": {"type": "integer"},
        "text": {"type": "string"},
        "keys": _STRINGS,
        "path": {"type": "array", "items": record(_POINT, "x", "y")},
    },
    "type",
)

COMPUTER_PARAMETERS = record({"actions": {"type": "array", "items": _ACTION, "minItems": 1}}, "actions")
COMPUTER_PREVIEW_PARAMETERS = record({"action": _ACTION}, "action")
