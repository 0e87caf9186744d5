"""The kinds of tools that a client runs, one row each: their form as a function, and how calls are mapped back."""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from translation.representation.json_types import Item, Json
from translation.tools import function_schemas


class ClientToolKind(NamedTuple):
    """One kind of tool that the client runs.

    `describe` returns the description and parameters of a tool as a function. `build_arguments` returns the arguments
    of a past call. `parse_arguments` returns the keys of the call item from (arguments, tool), or `None` if the
    arguments are no such call.
    """

    call_type: str
    describe: Callable[[Json], Json]
    build_arguments: Callable[[Item], Json]
    parse_arguments: Callable[[Json, Json], Json | None]


def _fixed_description(description: str, parameters: Json) -> Callable[[Json], Json]:
    return lambda _tool: {"description": description, "parameters": parameters}


def _typed_keys(source: Json, **keys: type[Any]) -> Json:
    """Returns the keys whose values have the right type. A call is not refused for an invalid optional value."""
    return {key: source[key] for key, kind in keys.items() if isinstance(source.get(key), kind)}


def _string_list(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) and value and all(isinstance(text, str) for text in value) else None


def _parse_shell(arguments: Json, tool: Json) -> Json | None:
    commands = _string_list(arguments.get("commands"))
    if commands is None:
        return None
    call: Json = {"action": {"commands": commands, **_typed_keys(arguments, timeout_ms=int, max_output_length=int)}}
    if tool.get("environment"):
        call["environment"] = {"type": "local"}
    return call


def _parse_local_shell(arguments: Json, _tool: Json) -> Json | None:
    command = _string_list(arguments.get("command"))
    if command is None:
        return None
    env = {key: text for key, text in _typed_keys(arguments, env=dict).get("env", {}).items() if isinstance(text, str)}
    options = _typed_keys(arguments, timeout_ms=int, user=str, working_directory=str)
    return {"action": {"type": "exec", "command": command, "env": env, **options}}


def _parse_apply_patch(arguments: Json, _tool: Json) -> Json | None:
    operation = arguments.get("operation", arguments)
    match operation:
        case {"type": "delete_file", "path": str(path)}:
            return {"operation": {"type": "delete_file", "path": path}}
        case {"type": "create_file" | "update_file" as verb, "path": str(path), "diff": str(diff)}:
            return {"operation": {"type": verb, "path": path, "diff": diff}}
        case _:
            return None


def _parse_tool_search(arguments: Json, _tool: Json) -> Json:
    return {"arguments": arguments, "execution": "client"}


def _describe_tool_search(tool: Json) -> Json:
    return {
        "description": tool.get("description") or function_schemas.TOOL_SEARCH_DESCRIPTION,
        "parameters": tool.get("parameters") or function_schemas.TOOL_SEARCH_PARAMETERS,
    }


def _parse_action(value: Any) -> Json | None:
    if not isinstance(value, dict):
        return None
    action = {"button": "left", **value} if value.get("type") == "click" else value
    required = function_schemas.COMPUTER_ACTIONS.get(str(action.get("type")))
    if required is None or not all(isinstance(action.get(key), kind) for key, kind in required.items()):
        return None
    return action


def _parse_computer(arguments: Json, _tool: Json) -> Json | None:
    values = arguments.get("actions")
    actions = [_parse_action(value) for value in values] if isinstance(values, list) else []
    return {"actions": actions, "pending_safety_checks": []} if actions and None not in actions else None


def _parse_computer_preview(arguments: Json, _tool: Json) -> Json | None:
    action = _parse_action(arguments.get("action"))
    return {"action": action, "pending_safety_checks": []} if action else None


def _describe_computer_preview(tool: Json) -> Json:
    screen = f"{tool.get('display_width')}x{tool.get('display_height')} pixels, {tool.get('environment')}"
    return {
        "description": f"{function_schemas.COMPUTER_DESCRIPTION} The screen: {screen}.",
        "parameters": function_schemas.COMPUTER_PREVIEW_PARAMETERS,
    }


def _action_arguments(item: Item) -> Json:
    return {key: item[key] for key in ("actions", "action") if item.get(key)}


CLIENT_TOOL_KINDS: dict[str, ClientToolKind] = {
    "shell": ClientToolKind(
        "shell_call",
        _fixed_description(function_schemas.SHELL_DESCRIPTION, function_schemas.SHELL_PARAMETERS),
        lambda item: dict(item["action"]),
        _parse_shell,
    ),
    "local_shell": ClientToolKind(
        "local_shell_call",
        _fixed_description(function_schemas.LOCAL_SHELL_DESCRIPTION, function_schemas.LOCAL_SHELL_PARAMETERS),
        lambda item: {key: value for key, value in item["action"].items() if key != "type" and value},
        _parse_local_shell,
    ),
    "apply_patch": ClientToolKind(
        "apply_patch_call",
        _fixed_description(function_schemas.APPLY_PATCH_DESCRIPTION, function_schemas.APPLY_PATCH_PARAMETERS),
        lambda item: dict(item["operation"]),
        _parse_apply_patch,
    ),
    "tool_search": ClientToolKind(
        "tool_search_call", _describe_tool_search, lambda item: item["arguments"] or {}, _parse_tool_search
    ),
    "computer": ClientToolKind(
        "computer_call",
        _fixed_description(function_schemas.COMPUTER_DESCRIPTION, function_schemas.COMPUTER_PARAMETERS),
        _action_arguments,
        _parse_computer,
    ),
    "computer_use_preview": ClientToolKind(
        "computer_call", _describe_computer_preview, _action_arguments, _parse_computer_preview
    ),
}
"""Tool type -> kind. Source of the keys of items: the types of the official SDK."""

OUTPUT_CONVERSIONS: dict[str, tuple[str, Callable[[Item], Any]]] = {
    "shell_call_output": ("shell", lambda item: orjson.dumps(item["output"]).decode()),
    "local_shell_call_output": ("local_shell", lambda item: item["output"]),
    "apply_patch_call_output": (
        "apply_patch",
        lambda item: orjson.dumps({"status": item.get("status"), "output": item.get("output") or ""}).decode(),
    ),
    "computer_call_output": (
        "computer",
        lambda item: [{"detail": "auto", **item["output"], "type": "input_image"}],
    ),
    "custom_tool_call_output": ("custom", lambda item: item["output"]),
}
"""Type of an output item -> (kind, function that returns the output of the function call)."""


def runs_at_client(tool: Json) -> bool:
    """Whether the client runs this tool. Tool search and shell exist as hosted tools of the same type, too."""
    match tool:
        case {"type": "tool_search"}:
            return tool.get("execution") == "client"
        case {"type": "shell", "environment": {"type": environment}}:
            return bool(environment == "local")
        case _:
            return tool["type"] in CLIENT_TOOL_KINDS
