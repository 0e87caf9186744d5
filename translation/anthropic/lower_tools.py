"""Tools and the choice among them."""

from collections.abc import Sequence
from typing import Final

from translation.anthropic.schemas import closed
from translation.anthropic.tool_schemas import object_schema
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.choice import allowed_tools, is_meant
from translation.tools.names import function_name

_LONGEST_NAME: Final = 128

_KEYS: Final = frozenset({"type", "name", "description", "parameters", "strict"})

_SEARCH: Final = "web_search"
"""Kinds of searches may carry a version: web_search_preview_2025_03_11."""

_SEARCH_KEYS: Final = frozenset({"type", "user_location", "filters"})

_FILTERS: Final = ("allowed_domains", "blocked_domains")

_MOST_STRICT: Final = 20
"""Strict tools in one request; the API refuses more."""

_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


def lower_tools(
    tools: Sequence[Json], choice: str | Json | None, parallel: bool | None, losses: list[Loss], *, strict: bool
) -> Json:
    """`tools` and `tool_choice` as far as they are to be sent; nothing without tools. `strict`: the model knows strict
    tools.

    Raises InvalidRequest for a bad name or a choice of a tool that is not there, Unrepresentable for other kinds.
    """
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        tools = allowed_tools(tools, choice.get("tools") or ())
        choice = choice.get("mode") or "auto"
        losses.append(Loss("tool_choice", "allowed_tools filtered"))
    if not tools:
        if choice not in (None, "auto", "none"):
            raise InvalidRequest("tool_choice asks for a tool, but there are no tools.", param="tool_choice")
        return {}
    strict = strict and sum(bool(tool.get("strict")) for tool in tools) <= _MOST_STRICT
    body: Json = {"tools": [_tool(tool, f"tools[{place}]", losses, strict) for place, tool in enumerate(tools)]}
    told = _choice(choice, tools)
    if parallel is False and told.get("type") != "none":
        told = {"type": "auto", **told, "disable_parallel_tool_use": True}
    return {**body, "tool_choice": told} if told else body


def is_forced(body: Json) -> bool:
    """Whether a body leaves the model no choice but to call."""
    return body.get("tool_choice", {}).get("type") in ("any", "tool")


def _tool(tool: Json, param: str, losses: list[Loss], strict: bool) -> Json:
    if _is_search(tool):
        return _search(tool, losses)
    name = function_name(tool, param, longest=_LONGEST_NAME)
    losses += [Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in _KEYS]
    told: Json = {"name": name}
    if tool.get("description"):
        told["description"] = tool["description"]
    schema = object_schema(tool.get("parameters") or {}, f"{param}.parameters", losses)
    if tool.get("strict") and strict:
        return {**told, "input_schema": closed(schema, f"{param}.parameters", losses), "strict": True}
    if tool.get("strict"):
        losses.append(Loss("tools.strict", "dropped"))
    return {**told, "input_schema": schema}


def _search(tool: Json, losses: list[Loss]) -> Json:
    losses += [Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in _SEARCH_KEYS]
    told: Json = {"type": "web_search_20250305", "name": _SEARCH}
    if isinstance(filters := tool.get("filters"), dict):
        told |= {key: filters[key] for key in _FILTERS if filters.get(key)}
    if isinstance(place := tool.get("user_location"), dict):
        told["user_location"] = {key: value for key, value in place.items() if value is not None}
    return told


def _is_search(tool: Json) -> bool:
    return str(tool.get("type")).startswith(_SEARCH)


def _choice(choice: str | Json | None, tools: Sequence[Json]) -> Json:
    if choice is None:
        return {}
    if isinstance(choice, str):
        return {"type": _CHOICES[choice]}
    if _is_search(choice) and any(map(_is_search, tools)):
        return {"type": "tool", "name": _SEARCH}
    if choice.get("type") != "function":
        raise Unrepresentable(f"this model's API cannot be told to use {choice.get('type')!r}", param="tool_choice")
    if not any(is_meant(tool, choice) for tool in tools):
        raise InvalidRequest(f"tool_choice names {choice.get('name')!r}, which is not in tools.", param="tool_choice")
    return {"type": "tool", "name": choice["name"]}
