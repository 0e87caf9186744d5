"""The kinds of tools a client runs itself, one row each: how they ride on functions and how their calls come back."""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from translation.representation.json_types import Item, Json
from translation.tools import schemas


class ClientToolKind(NamedTuple):
    """One client-run kind.

    `describe` says the tool as a function (description, parameters); `arguments` says a past call as the function's
    arguments; `read` makes the call item's own keys out of (arguments, tool), or `None` when they are no such call.
    """

    call_type: str
    describe: Callable[[Json], Json]
    build_arguments: Callable[[Item], Json]
    parse_arguments: Callable[[Json, Json], Json | None]


def _fixed_description(description: str, parameters: Json) -> Callable[[Json], Json]:
    return lambda _tool: {"description": description, "parameters": parameters}


def _typed_keys(source: Json, **keys: type[Any]) -> Json:
    """Those keys that are there with the right type: a wrong optional value is no reason to lose the call."""
    return {key: source[key] for key, kind in keys.items() if isinstance(source.get(key), kind)}


def _string_list(found: Any) -> list[str] | None:
    if isinstance(found, str):
        return [found]
    return found if isinstance(found, list) and found and all(isinstance(each, str) for each in found) else None


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
        "description": tool.get("description") or schemas.TOOL_SEARCH_DESCRIPTION,
        "parameters": tool.get("parameters") or schemas.TOOL_SEARCH_PARAMETERS,
    }


def _parse_action(found: Any) -> Json | None:
    if not isinstance(found, dict):
        return None
    action = {"button": "left", **found} if found.get("type") == "click" else found
    needs = schemas.COMPUTER_ACTIONS.get(str(action.get("type")))
    if needs is None or not all(isinstance(action.get(key), kind) for key, kind in needs.items()):
        return None
    return action


def _parse_computer(arguments: Json, _tool: Json) -> Json | None:
    found = arguments.get("actions")
    actions = [_parse_action(each) for each in found] if isinstance(found, list) else []
    return {"actions": actions, "pending_safety_checks": []} if actions and None not in actions else None


def _parse_computer_preview(arguments: Json, _tool: Json) -> Json | None:
    action = _parse_action(arguments.get("action"))
    return {"action": action, "pending_safety_checks": []} if action else None


def _describe_computer_preview(tool: Json) -> Json:
    screen = f"{tool.get('display_width')}x{tool.get('display_height')} pixels, {tool.get('environment')}"
    return {
        "description": f"{schemas.COMPUTER_DESCRIPTION} The screen: {screen}.",
        "parameters": schemas.COMPUTER_PREVIEW_PARAMETERS,
    }


def _action_arguments(item: Item) -> Json:
    return {key: item[key] for key in ("actions", "action") if item.get(key)}


CLIENT_TOOL_KINDS: dict[str, ClientToolKind] = {
    "shell": ClientToolKind(
        "shell_call",
        _fixed_description(schemas.SHELL_DESCRIPTION, schemas.SHELL_PARAMETERS),
        lambda item: dict(item["action"]),
        _parse_shell,
    ),
    "local_shell": ClientToolKind(
        "local_shell_call",
        _fixed_description(schemas.LOCAL_SHELL_DESCRIPTION, schemas.LOCAL_SHELL_PARAMETERS),
        lambda item: {key: said for key, said in item["action"].items() if key != "type" and said},
        _parse_local_shell,
    ),
    "apply_patch": ClientToolKind(
        "apply_patch_call",
        _fixed_description(schemas.APPLY_PATCH_DESCRIPTION, schemas.APPLY_PATCH_PARAMETERS),
        lambda item: dict(item["operation"]),
        _parse_apply_patch,
    ),
    "tool_search": ClientToolKind(
        "tool_search_call", _describe_tool_search, lambda item: item["arguments"] or {}, _parse_tool_search
    ),
    "computer": ClientToolKind(
        "computer_call",
        _fixed_description(schemas.COMPUTER_DESCRIPTION, schemas.COMPUTER_PARAMETERS),
        _action_arguments,
        _parse_computer,
    ),
    "computer_use_preview": ClientToolKind(
        "computer_call", _describe_computer_preview, _action_arguments, _parse_computer_preview
    ),
}
"""Tool type -> kind. Source of the items' keys: the official SDK's types."""

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
"""Output item type -> (kind, what the function returned)."""


def is_client_run(tool: Json) -> bool:
    """Whether the client is the one to run it: tool search and shell exist as hosted tools under the same type."""
    match tool:
        case {"type": "tool_search"}:
            return tool.get("execution") == "client"
        case {"type": "shell", "environment": {"type": environment}}:
            return bool(environment == "local")
        case _:
            return tool["type"] in CLIENT_TOOL_KINDS
