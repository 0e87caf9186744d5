"""The kinds of tools a client runs itself, one row each: how they ride on functions and how their calls come back."""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from translation.representation.json_types import Item, Json
from translation.tools import schemas


class Kind(NamedTuple):
    """One client-run kind.

    `describe` says the tool as a function (description, parameters); `arguments` says a past call as the function's
    arguments; `read` makes the call item's own keys out of (arguments, tool), or `None` when they are no such call.
    """

    call: str
    describe: Callable[[Json], Json]
    arguments: Callable[[Item], Json]
    read: Callable[[Json, Json], Json | None]


def _fixed(description: str, parameters: Json) -> Callable[[Json], Json]:
    return lambda _tool: {"description": description, "parameters": parameters}


def _given(source: Json, **keys: type[Any]) -> Json:
    """Those keys that are there with the right type: a wrong optional value is no reason to lose the call."""
    return {key: source[key] for key, kind in keys.items() if isinstance(source.get(key), kind)}


def _strings(found: Any) -> list[str] | None:
    if isinstance(found, str):
        return [found]
    return found if isinstance(found, list) and found and all(isinstance(each, str) for each in found) else None


def _shell(arguments: Json, tool: Json) -> Json | None:
    commands = _strings(arguments.get("commands"))
    if commands is None:
        return None
    call: Json = {"action": {"commands": commands, **_given(arguments, timeout_ms=int, max_output_length=int)}}
    if tool.get("environment"):
        call["environment"] = {"type": "local"}
    return call


def _local_shell(arguments: Json, _tool: Json) -> Json | None:
    command = _strings(arguments.get("command"))
    if command is None:
        return None
    env = {key: text for key, text in _given(arguments, env=dict).get("env", {}).items() if isinstance(text, str)}
    options = _given(arguments, timeout_ms=int, user=str, working_directory=str)
    return {"action": {"type": "exec", "command": command, "env": env, **options}}


def _apply_patch(arguments: Json, _tool: Json) -> Json | None:
    operation = arguments.get("operation", arguments)
    match operation:
        case {"type": "delete_file", "path": str(path)}:
            return {"operation": {"type": "delete_file", "path": path}}
        case {"type": "create_file" | "update_file" as verb, "path": str(path), "diff": str(diff)}:
            return {"operation": {"type": verb, "path": path, "diff": diff}}
        case _:
            return None


def _tool_search(arguments: Json, _tool: Json) -> Json:
    return {"arguments": arguments, "execution": "client"}


def _describe_tool_search(tool: Json) -> Json:
    return {
        "description": tool.get("description") or schemas.TOOL_SEARCH,
        "parameters": tool.get("parameters") or schemas.TOOL_SEARCH_PARAMETERS,
    }


def _action(found: Any) -> Json | None:
    if not isinstance(found, dict):
        return None
    action = {"button": "left", **found} if found.get("type") == "click" else found
    needs = schemas.ACTIONS.get(str(action.get("type")))
    if needs is None or not all(isinstance(action.get(key), kind) for key, kind in needs.items()):
        return None
    return action


def _computer(arguments: Json, _tool: Json) -> Json | None:
    found = arguments.get("actions")
    actions = [_action(each) for each in found] if isinstance(found, list) else []
    return {"actions": actions, "pending_safety_checks": []} if actions and None not in actions else None


def _computer_preview(arguments: Json, _tool: Json) -> Json | None:
    action = _action(arguments.get("action"))
    return {"action": action, "pending_safety_checks": []} if action else None


def _describe_preview(tool: Json) -> Json:
    screen = f"{tool.get('display_width')}x{tool.get('display_height')} pixels, {tool.get('environment')}"
    return {
        "description": f"{schemas.COMPUTER} The screen: {screen}.",
        "parameters": schemas.COMPUTER_PREVIEW_PARAMETERS,
    }


def _past_action(item: Item) -> Json:
    return {key: item[key] for key in ("actions", "action") if item.get(key)}


KINDS: dict[str, Kind] = {
    "shell": Kind(
        "shell_call", _fixed(schemas.SHELL, schemas.SHELL_PARAMETERS), lambda item: dict(item["action"]), _shell
    ),
    "local_shell": Kind(
        "local_shell_call",
        _fixed(schemas.LOCAL_SHELL, schemas.LOCAL_SHELL_PARAMETERS),
        lambda item: {key: said for key, said in item["action"].items() if key != "type" and said},
        _local_shell,
    ),
    "apply_patch": Kind(
        "apply_patch_call",
        _fixed(schemas.APPLY_PATCH, schemas.APPLY_PATCH_PARAMETERS),
        lambda item: dict(item["operation"]),
        _apply_patch,
    ),
    "tool_search": Kind("tool_search_call", _describe_tool_search, lambda item: item["arguments"] or {}, _tool_search),
    "computer": Kind("computer_call", _fixed(schemas.COMPUTER, schemas.COMPUTER_PARAMETERS), _past_action, _computer),
    "computer_use_preview": Kind("computer_call", _describe_preview, _past_action, _computer_preview),
}
"""Tool type -> kind. Source of the items' keys: the official SDK's types."""

OUTPUTS: dict[str, tuple[str, Callable[[Item], Any]]] = {
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


def client_runs(tool: Json) -> bool:
    """Whether the client is the one to run it: tool search and shell exist as hosted tools under the same type."""
    match tool:
        case {"type": "tool_search"}:
            return tool.get("execution") == "client"
        case {"type": "shell", "environment": {"type": environment}}:
            return bool(environment == "local")
        case _:
            return tool["type"] in KINDS
