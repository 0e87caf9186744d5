"""Lowers `tools`, `tool_choice` and `parallel_tool_calls` to the Messages API's form."""

from collections.abc import Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.object_schemas import COMBINING_KEYWORDS, to_object_schema
from translation.messages.upstream.families import ClaudeFamily
from translation.messages.upstream.json_schemas import JoinedObjects, close_schema
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.shared_tools import SharedTools, derive
from translation.tools.choice import filter_allowed_tools, matches_choice
from translation.tools.names import require_function_name
from translation.tools.searches import WEB_SEARCH, is_search_tool

_FUNCTION_KEYS: Final = frozenset({"type", "name", "description", "parameters", "strict"})

_SEARCH_KEYS: Final = frozenset({"type", "user_location", "filters", "max_uses"})

_FILTER_KEYS: Final = ("allowed_domains", "blocked_domains")

_MERGED_WHEN_STRICT: Final = (*COMBINING_KEYWORDS, "$ref")
"""Of a strict tool a definition that stands at the top is written out: the top would be closed without it."""

_MAX_STRICT_TOOLS: Final = 20
"""The number of strict tools that the API accepts in one request."""

_TOOL_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}

_FORCING_TYPES: Final = ("any", "tool")
"""Types of a `tool_choice` that require a call."""


def lower_tools(
    tools: Sequence[Json], choice: str | Json | None, parallel: bool | None, losses: list[Loss], family: ClaudeFamily
) -> Json:
    """Returns `tools` and `tool_choice` as keys of a body, an empty object without tools.

    A model that refuses to be forced chooses itself whether to call a tool, which is a loss. Raises InvalidRequest for
    a bad name or a choice of a tool that is not in `tools`, and Unrepresentable for types of tools that the API does
    not have.
    """
    tools, choice = filter_allowed_tools(tools, choice, losses)
    if not tools:
        return {}
    strict = family.has_strict_tools and sum(bool(tool.get("strict")) for tool in tools) <= _MAX_STRICT_TOOLS
    lowered, tool_losses = derive(tools, _lower_strictly if strict else _lower_leniently)
    losses += tool_losses
    body: Json = {"tools": lowered}
    tool_choice = _lower_choice(choice, tools)
    if family.forced_tools == "refused" and tool_choice.get("type") in _FORCING_TYPES:
        tool_choice = {"type": "auto"}
        losses.append(Loss("tool_choice", "not enforced"))
    if parallel is False and tool_choice.get("type") != "none":
        tool_choice = {"type": "auto", **tool_choice, "disable_parallel_tool_use": True}
    return {**body, "tool_choice": tool_choice} if tool_choice else body


def forces_call(body: Json) -> bool:
    """Whether `tool_choice` of a body requires the model to call a tool."""
    return body.get("tool_choice", {}).get("type") in _FORCING_TYPES


def _lower_strictly(tools: Sequence[Json]) -> tuple[list[Json], list[Loss]]:
    return _lower_all(tools, strict=True)


def _lower_leniently(tools: Sequence[Json]) -> tuple[list[Json], list[Loss]]:
    return _lower_all(tools, strict=False)


def _lower_all(tools: Sequence[Json], *, strict: bool) -> tuple[list[Json], list[Loss]]:
    """Returns the tools in the API's form, and their losses. What is made of shared tools is shared too."""
    losses: list[Loss] = []
    lowered = [_lower_tool(tool, f"tools[{index}]", losses, strict) for index, tool in enumerate(tools)]
    return (SharedTools(lowered) if isinstance(tools, SharedTools) else lowered), losses


def _lower_tool(tool: Json, param: str, losses: list[Loss], strict: bool) -> Json:
    if is_search_tool(tool):
        return _lower_search(tool, losses)
    name = require_function_name(tool, param)
    losses += [Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in _FUNCTION_KEYS]
    lowered: Json = {"name": name}
    if tool.get("description"):
        lowered["description"] = tool["description"]
    param, parameters = f"{param}.parameters", tool.get("parameters") or {}
    if tool.get("strict"):
        if strict and (closed := _close_parameters(parameters, param, losses)) is not None:
            return {**lowered, "input_schema": closed, "strict": True}
        losses.append(Loss("tools.strict", "dropped"))
    return {**lowered, "input_schema": to_object_schema(parameters, param, losses)}


def _close_parameters(parameters: Json, param: str, losses: list[Loss]) -> Json | None:
    """Returns the schema that the API enforces of a strict tool, or None if it cannot enforce it."""
    changes: list[Loss] = []
    try:
        closed = close_schema(to_object_schema(parameters, param, changes, _MERGED_WHEN_STRICT), param, changes)
    except JoinedObjects:
        return None
    losses += changes
    return closed


def _lower_search(tool: Json, losses: list[Loss]) -> Json:
    losses += [Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in _SEARCH_KEYS]
    lowered: Json = {"type": "web_search_20250305", "name": WEB_SEARCH}
    if isinstance(filters := tool.get("filters"), dict):
        lowered |= {key: filters[key] for key in _FILTER_KEYS if filters.get(key)}
    if isinstance(location := tool.get("user_location"), dict):
        lowered["user_location"] = {key: value for key, value in location.items() if value is not None}
    if tool.get("max_uses"):
        lowered["max_uses"] = tool["max_uses"]
    return lowered


def _lower_choice(choice: str | Json | None, tools: Sequence[Json]) -> Json:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {"type": _TOOL_CHOICES[choice]}
    if is_search_tool(choice) and any(map(is_search_tool, tools)):
        return {"type": "tool", "name": WEB_SEARCH}
    if choice.get("type") != "function":
        raise Unrepresentable(
            f"this model's API has no tool_choice of type {choice.get('type')!r}", param="tool_choice"
        )
    if not any(matches_choice(tool, choice) for tool in tools):
        raise InvalidRequest(f"tool_choice names {choice.get('name')!r}, which is not in tools.", param="tool_choice")
    return {"type": "tool", "name": choice["name"]}
