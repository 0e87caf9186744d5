"""Lifts the tools of a request of Gemini's API, and its choice of tools."""

from collections.abc import Mapping, Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.client.json_schemas import lift_schema
from translation.lowering.closed_schemas import close_objects
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_SEARCH_KEYS: Final = ("googleSearch", "googleSearchRetrieval")

_LOST_KEYS: Final = ("response", "responseJsonSchema")
"""Keys of a declaration that describe the result of the function. Other APIs describe only its parameters."""

_CHOICES: Final[Mapping[str, str]] = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}

_NAMING_MODES: Final = frozenset({"ANY", "VALIDATED"})
"""The modes that may name functions."""

_CHOICE_PARAM: Final = "toolConfig.functionCallingConfig"


def lift_declarations(tools: Sequence[Json], config: Json, losses: list[Loss]) -> list[Json]:
    """Returns the tools as those of the Responses API. Losses are appended to `losses`.

    With the mode VALIDATED calls are held to their schemas. Raises Unrepresentable for a tool that Google runs and no
    other upstream has, and InvalidRequest for a declaration with two schemas.
    """
    validated = _mode_of(config) == "VALIDATED"
    lifted: list[Json] = []
    for index, tool in enumerate(tools):
        for key, value in tool.items():
            param = f"tools[{index}].{key}"
            if key == "functionDeclarations":
                lifted += [
                    _lift_function(each, f"{param}[{position}]", losses, validated=validated)
                    for position, each in enumerate(value)
                ]
            elif key in _SEARCH_KEYS:
                losses += [Loss(f"{param}.{name:.50}", "dropped") for name in value if value[name]]
                lifted.append({"type": "web_search"})
            elif value is not None:
                raise Unrepresentable(f"this model's upstream has no tool {key!r:.100}: leave it out", param=param)
    return lifted


def count_tools(body: Json) -> int:
    """Returns how many tools a normalized body has. It need not be valid."""
    tools = body.get("tools")
    declared = [tool.get("functionDeclarations") for tool in tools if isinstance(tool, dict)] if tools else []
    return sum(len(each) if isinstance(each, list) else 1 for each in declared)


def _lift_function(declaration: Json, param: str, losses: list[Loss], *, validated: bool) -> Json:
    if "parameters" in declaration and "parametersJsonSchema" in declaration:
        raise InvalidRequest(
            "Send 'parameters' or 'parametersJsonSchema', not both.", param=f"{param}.parametersJsonSchema"
        )
    losses += [Loss(f"{param}.{key}", "dropped") for key in _LOST_KEYS if key in declaration]
    if declaration.get("behavior") == "NON_BLOCKING":
        losses.append(Loss(f"{param}.behavior", "dropped"))
    parameters = declaration.get("parametersJsonSchema")
    if parameters is None:
        parameters = lift_schema(declaration.get("parameters") or {"type": "OBJECT", "properties": {}})
    closed = close_objects(parameters) if validated else None
    if validated and closed is None:
        losses.append(Loss(f"{_CHOICE_PARAM}.mode", f"AUTO for {declaration['name']:.64}"))
    lifted = {"type": "function", "name": declaration["name"], "parameters": closed or parameters}
    if declaration.get("description"):
        lifted["description"] = declaration["description"]
    # The Responses API holds arguments to a schema by default, and this API does not.
    lifted["strict"] = closed is not None
    return lifted


def lift_calling_config(config: Json, losses: list[Loss]) -> str | Json | None:
    """Returns `tool_choice` of a turn. Raises InvalidRequest for names of functions in a mode that has none."""
    losses += [
        Loss(f"toolConfig.{key}", "dropped")
        for key in ("retrievalConfig", "includeServerSideToolInvocations")
        if config.get(key)
    ]
    calling = config.get("functionCallingConfig") or {}
    if calling.get("streamFunctionCallArguments"):
        losses.append(Loss(f"{_CHOICE_PARAM}.streamFunctionCallArguments", "dropped"))
    mode, names = _mode_of(config), calling.get("allowedFunctionNames")
    if names and mode not in _NAMING_MODES:
        raise InvalidRequest(
            "'allowedFunctionNames' is for the modes ANY and VALIDATED.", param=f"{_CHOICE_PARAM}.allowedFunctionNames"
        )
    if not names:
        return None if mode is None else _CHOICES[mode]
    chosen = [{"type": "function", "name": name} for name in names]
    if mode == "ANY" and len(chosen) == 1:
        return chosen[0]
    return {"type": "allowed_tools", "mode": "required" if mode == "ANY" else "auto", "tools": chosen}


def _mode_of(config: Json) -> str | None:
    mode = (config.get("functionCallingConfig") or {}).get("mode")
    return None if mode == "MODE_UNSPECIFIED" else mode
