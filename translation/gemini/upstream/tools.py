"""Lowers tools and `tool_choice` to Gemini's form. https://ai.google.dev/gemini-api/docs/function-calling"""

from collections.abc import Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.upstream.json_schemas import reduce_schema
from translation.lowering.object_schemas import COMBINING_KEYWORDS, to_object_schema
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.shared_tools import SharedTools, derive
from translation.tools.choice import matches_choice, require_no_choice, select_allowed_tools
from translation.tools.names import require_function_name
from translation.tools.searches import is_search_tool

_CALLING_MODES: Final = {"none": "NONE", "required": "ANY"}

_MERGED_AT_TOP: Final = (*COMBINING_KEYWORDS, "$ref")

_FUNCTION_KEYS: Final = frozenset({"type", "name", "description", "parameters", "strict"})


def lower_tools(tools: Sequence[Json], choice: str | Json | None, parallel: bool | None, losses: list[Loss]) -> Json:
    """Returns `tools` and `toolConfig` as keys of a body, an empty object without tools.

    Nothing requires a search of the model: a request for one gets the search as its only tool, and a loss. Raises
    InvalidRequest for a bad name or a choice of a tool that is not in `tools`, and Unrepresentable for other types of
    tools, which Gemini does not have.
    """
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools" and choice.get("mode") != "required":
        tools = select_allowed_tools(tools, choice.get("tools") or ())
        choice = "auto"
        losses.append(Loss("tool_choice", "allowed_tools filtered"))
    if not tools:
        require_no_choice(choice)
        return {}
    searches = [tool for tool in tools if is_search_tool(tool)]
    if searches and _requires_search(tools, choice):
        losses.append(Loss("tool_choice", "not enforced"))
        losses += [
            Loss(f"tools[{index}]", f"{tool.get('type')} left out")
            for index, tool in enumerate(tools)
            if not is_search_tool(tool)
        ]
        return _lower_search(searches, losses)
    functions, tool_losses = derive(tools, _lower_functions)
    losses += tool_losses
    if not functions and choice == "none":
        losses.append(Loss("tools", "dropped"))
        return {}
    if not functions and choice not in (None, "auto"):
        raise InvalidRequest("tool_choice asks for a tool that is not in tools.", param="tool_choice")
    if not functions:
        return _lower_search(searches, losses)
    # Most models refuse a search beside functions, and some clients send a search tool with every request.
    losses += [
        Loss(f"tools[{index}]", f"{tool['type']} left out") for index, tool in enumerate(tools) if is_search_tool(tool)
    ]
    if parallel is False:
        losses.append(Loss("parallel_tool_calls", "dropped"))
    calling_config = _lower_choice([tool for tool in tools if not is_search_tool(tool)], choice)
    config = {"toolConfig": {"functionCallingConfig": calling_config}} if calling_config else {}
    return {"tools": [{"functionDeclarations": functions}], **config}


def _lower_functions(tools: Sequence[Json]) -> tuple[list[Json], list[Loss]]:
    """Returns the functions in Gemini's form, and their losses. What is made of shared tools is shared too."""
    losses: list[Loss] = []
    lowered = [
        _lower_function(tool, f"tools[{index}]", losses) for index, tool in enumerate(tools) if not is_search_tool(tool)
    ]
    return (SharedTools(lowered) if isinstance(tools, SharedTools) else lowered), losses


def _lower_function(tool: Json, param: str, losses: list[Loss]) -> Json:
    name = require_function_name(tool, param)
    losses += [Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in _FUNCTION_KEYS]
    declaration: Json = {"name": name} | ({"description": tool["description"]} if tool.get("description") else {})
    parameters = _lower_parameters(tool.get("parameters") or {}, f"{param}.parameters", losses)
    return declaration | ({"parametersJsonSchema": parameters} if parameters else {})


def _lower_parameters(schema: Json, param: str, losses: list[Loss]) -> Json:
    """Returns the schema of the arguments of a function, which describes an object, or {} if it has none.

    The API represents an object without properties by leaving the schema out.
    """
    schema_losses: list[Loss] = []
    reduced = reduce_schema(schema, param, schema_losses)
    if "anyOf" in reduced:
        # The API reads the parameters of a function from the properties at the top.
        schema_losses = []
        reduced = reduce_schema(to_object_schema(schema, param, schema_losses, _MERGED_AT_TOP), param, schema_losses)
    losses += schema_losses
    if "$ref" in reduced:
        return reduced
    has_names = bool(reduced.get("properties")) or reduced.get("additionalProperties", False) is not False
    return {"type": "object", **reduced} if has_names or reduced.get("type", "object") != "object" else {}


def _lower_choice(tools: Sequence[Json], choice: str | Json | None) -> Json:
    if not isinstance(choice, dict):
        # VALIDATED enforces the schemas of all functions, so one strict function makes all of them strict.
        strict = any(tool.get("strict") for tool in tools)
        mode = _CALLING_MODES.get(choice or "auto", "VALIDATED" if strict else None)
        return {"mode": mode} if mode else {}
    if choice["type"] == "allowed_tools":
        allowed = select_allowed_tools(tools, choice.get("tools") or ())
        return {"mode": "ANY", "allowedFunctionNames": [tool["name"] for tool in allowed]}
    if choice["type"] != "function":
        raise Unrepresentable(f"this model's API has no tool_choice of type {choice['type']!r}", param="tool_choice")
    if not any(matches_choice(tool, choice) for tool in tools):
        raise InvalidRequest(f"tool_choice names {choice.get('name')!r}, which is not in tools.", param="tool_choice")
    return {"mode": "ANY", "allowedFunctionNames": [choice["name"]]}


def _requires_search(tools: Sequence[Json], choice: str | Json | None) -> bool:
    """Whether only a search satisfies a choice."""
    if not isinstance(choice, dict):
        return choice == "required" and all(map(is_search_tool, tools))
    if choice["type"] == "allowed_tools":
        allowed = select_allowed_tools(tools, choice.get("tools") or ())
        return bool(allowed) and all(map(is_search_tool, allowed))
    return is_search_tool(choice)


def _lower_search(searches: Sequence[Json], losses: list[Loss]) -> Json:
    for tool in searches:
        filters = {f"filters.{key}": value for key, value in (tool.get("filters") or {}).items()}
        losses += [
            Loss(f"tools.{key}", "dropped")
            for key, value in {**tool, **filters}.items()
            if value and key not in ("type", "filters")
        ]
    return {"tools": [{"googleSearch": {}}]}
