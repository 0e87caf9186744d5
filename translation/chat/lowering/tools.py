"""Tools and the choice among them in chat's nested form."""

from collections.abc import Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.choice import matches_choice, select_allowed_tools
from translation.tools.names import require_tool_name

_MAX_NAME_CHARS: Final = 64

_TOOL_KEYS: Final = {
    "function": ("name", "description", "parameters", "strict"),
    "custom": ("name", "description", "format"),
}
"""Kind of tool -> the keys chat has for it; the tool's own object is under its kind."""


def lower_tools(tools: Sequence[Json], choice: str | Json | None, parallel: bool | None, losses: list[Loss]) -> Json:
    """`tools`, `tool_choice` and `parallel_tool_calls` as far as they are to be sent; nothing without tools.

    `allowed_tools` leaves the other tools out, which is what it means to an upstream that does not know it. Raises
    InvalidRequest for a bad name or a choice of a tool that is not there, Unrepresentable for kinds chat does not have.
    """
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        tools = select_allowed_tools(tools, choice.get("tools") or ())
        choice = choice.get("mode") or "auto"
        losses.append(Loss("tool_choice", "allowed_tools filtered"))
    if not tools:
        if choice not in (None, "auto", "none"):
            raise InvalidRequest("tool_choice asks for a tool, but there are no tools.", param="tool_choice")
        return {}
    body: Json = {"tools": [_lower_tool(tool, f"tools[{index}]", losses) for index, tool in enumerate(tools)]}
    if choice is not None:
        body["tool_choice"] = choice if isinstance(choice, str) else _lower_named_choice(choice, tools)
    if parallel is not None:
        body["parallel_tool_calls"] = parallel
    return body


def restrict_to_chosen_tools(body: Json, losses: list[Loss]) -> None:
    """Say which tools of a chat body may be called by sending no others, and no names in `tool_choice`.

    Raises InvalidRequest when it names a tool that is not there.
    """
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return
    is_one = choice["type"] != "allowed_tools"
    named = [choice] if is_one else choice["allowed_tools"]["tools"]
    tools = {_tool_key(tool): tool for tool in body["tools"]}
    allowed = {_tool_key(tool) for tool in named}
    if missing := sorted(name for _, name in allowed - tools.keys()):
        raise InvalidRequest(f"tool_choice names {missing[0]!r}, which is not in tools.", param="tool_choice")
    chosen = [tool for name, tool in tools.items() if name in allowed]
    if len(chosen) < len(body["tools"]):
        losses.append(Loss("tool_choice", "other tools left out"))
    body["tools"] = chosen
    body["tool_choice"] = "required" if is_one else choice["allowed_tools"]["mode"]


def _tool_key(tool: Json) -> tuple[str, str]:
    """Of a tool or a choice in chat's nested form."""
    return tool["type"], tool[tool["type"]]["name"]


def _lower_tool(tool: Json, param: str, losses: list[Loss]) -> Json:
    kind = tool.get("type", "")
    if kind not in _TOOL_KEYS:
        raise Unrepresentable(f"this model's API has no tools of type {kind!r}", param=param)
    require_tool_name(tool, param, max_chars=_MAX_NAME_CHARS)
    keys = _TOOL_KEYS[kind]
    losses += [Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in ("type", *keys)]
    lowered = {key: tool[key] for key in keys if tool.get(key) is not None}
    if lowered.get("format", {}).get("type") == "grammar":
        grammar = {key: value for key, value in lowered["format"].items() if key != "type"}
        lowered["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": kind, kind: lowered}


def _lower_named_choice(choice: Json, tools: Sequence[Json]) -> Json:
    kind = choice.get("type", "")
    if kind not in _TOOL_KEYS:
        raise Unrepresentable(f"this model's API cannot be told to use {kind!r}", param="tool_choice")
    if not any(matches_choice(tool, choice) for tool in tools):
        raise InvalidRequest(f"tool_choice names {choice.get('name')!r}, which is not in tools.", param="tool_choice")
    return {"type": kind, kind: {"name": choice["name"]}}
