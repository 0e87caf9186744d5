"""Describes tools that Anthropic defined and clients run as functions: a shell, an editor of files, and a memory.

Anthropic's models know them by their types. Other models need descriptions and schemas, which are those of
https://platform.claude.com/docs/en/agents-and-tools/tool-use
"""

from collections.abc import Mapping
from typing import Final

from translation.representation.json_types import Json

_TEXT: Final[Json] = {"type": "string"}
_PATH: Final[Json] = {"type": "string", "description": "The path of the file or directory."}
_RANGE: Final[Json] = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "For view: the first and the last line, counted from 1. The last may be -1, the end of the file.",
}
_EDITS: Final[Json] = {
    "file_text": {"type": "string", "description": "For create: the content of the file."},
    "old_str": {"type": "string", "description": "For str_replace: the text to replace, which occurs exactly once."},
    "new_str": {"type": "string", "description": "For str_replace: the text that replaces it."},
    "insert_line": {"type": "integer", "description": "For insert: the line after which it goes, 0 for the beginning."},
}
_INSERT_TEXT: Final[Json] = {"type": "string", "description": "For insert: the text."}

_LAST_UNDO_VERSION: Final = "text_editor_20250124"
"""The last version of the editor that can undo, and that inserts `new_str`."""


def _commands(*names: str) -> Json:
    return {"type": "string", "enum": list(names)}


_BASH: Final[Json] = {
    "name": "bash",
    "description": (
        "Run a command in a shell that keeps its state between calls, and get its output. Send restart to begin with a "
        "new shell."
    ),
    "input_schema": {
        "type": "object",
        "properties": {"command": _TEXT, "restart": {"type": "boolean"}},
    },
}

_EDITOR_TASK: Final = "View, create and edit text files: view shows a file or lists a directory."

_EDITOR: Final[Json] = {
    "name": "str_replace_based_edit_tool",
    "description": _EDITOR_TASK,
    "input_schema": {
        "type": "object",
        "properties": {
            "command": _commands("view", "create", "str_replace", "insert"),
            "path": _PATH,
            "view_range": _RANGE,
            **_EDITS,
            "insert_text": _INSERT_TEXT,
        },
        "required": ["command", "path"],
    },
}

_EDITOR_WITH_UNDO: Final[Json] = {
    "name": "str_replace_editor",
    "description": f"{_EDITOR_TASK} undo_edit takes back the last edit of a file.",
    "input_schema": {
        "type": "object",
        "properties": {
            "command": _commands("view", "create", "str_replace", "insert", "undo_edit"),
            "path": _PATH,
            "view_range": _RANGE,
            **_EDITS,
            "new_str": {"type": "string", "description": "For str_replace and insert: the new text."},
        },
        "required": ["command", "path"],
    },
}

_MEMORY: Final[Json] = {
    "name": "memory",
    "description": (
        "Keep notes in files below /memories, which stay between conversations. View /memories before anything else, "
        "and write down progress as you go, since the conversation may be cut off at any time."
    ),
    "input_schema": {
        "type": "object",
        "properties": {
            "command": _commands("view", "create", "str_replace", "insert", "delete", "rename"),
            "path": _PATH,
            "view_range": _RANGE,
            **_EDITS,
            "insert_text": _INSERT_TEXT,
            "old_path": {"type": "string", "description": "For rename: the present path."},
            "new_path": {"type": "string", "description": "For rename: the new path."},
        },
        "required": ["command"],
    },
}

_FAMILIES: Final[Mapping[str, Json]] = {"bash": _BASH, "text_editor": _EDITOR, "memory": _MEMORY}
"""Type of a tool without its version -> the function for it."""


def describe_client_tool(tool: Json) -> Json:
    """Returns a tool that Anthropic defined and the client runs as a function, and any other tool as it is."""
    kind = str(tool.get("type"))
    family, _, version = kind.rpartition("_")
    if family not in _FAMILIES or not version.isdigit():
        return tool
    is_old = family == "text_editor" and kind <= _LAST_UNDO_VERSION
    return (_EDITOR_WITH_UNDO if is_old else _FAMILIES[family]) | tool | {"type": "custom"}
