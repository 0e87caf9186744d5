"""Lowers tools, and the values of `tool_choice` that Ollama supports."""

from collections.abc import Sequence
from typing import Final

from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.shared_tools import SharedTools, derive
from translation.representation.turn import Turn
from translation.tools.choice import filter_allowed_tools
from translation.tools.declared_functions import complete_parameters
from translation.tools.names import require_function_name

_FUNCTION_KEYS: Final = frozenset({"type", "name", "description", "parameters"})


def lower_tools(turn: Turn, profile: Profile, losses: list[Loss]) -> list[Json]:
    """Returns the tools to send: none for `tool_choice: none`, and only the allowed ones for `allowed_tools`.

    Raises InvalidRequest for a bad name or a choice of a tool that is not in `tools`. Raises Unrepresentable for other
    types of tools, for a `tool_choice` that requires a call, because Ollama leaves that to the model, and for a profile
    with a tool parser.
    """
    tools, choice = filter_allowed_tools(turn.tools, turn.tool_choice, losses)
    if not tools:
        return []
    if choice == "none":
        return []
    if choice not in (None, "auto"):
        raise Unrepresentable("this model's API cannot require a tool call: leave out tool_choice", param="tool_choice")
    if profile.tool_parser != "openai" or profile.text_tool_calls != "none":
        message = "this model's server parses tool calls itself: remove tool_parser and text_tool_calls from its config"
        raise Unrepresentable(message, param="tools")
    if turn.parallel_tool_calls is False:
        losses.append(Loss("parallel_tool_calls", "dropped"))
    lowered, tool_losses = derive(tools, _lower_all)
    losses += tool_losses
    return lowered


def _lower_all(tools: Sequence[Json]) -> tuple[list[Json], list[Loss]]:
    """Returns the tools in Ollama's form, and their losses. What is made of shared tools is shared too."""
    losses: list[Loss] = []
    lowered = [_lower_tool(tool, f"tools[{index}]", losses) for index, tool in enumerate(tools)]
    return (SharedTools(lowered) if isinstance(tools, SharedTools) else lowered), losses


def _lower_tool(tool: Json, param: str, losses: list[Loss]) -> Json:
    name = require_function_name(tool, param)
    losses += [Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in _FUNCTION_KEYS]
    function: Json = {"name": name}
    if tool.get("description"):
        function["description"] = tool["description"]
    function["parameters"] = complete_parameters(tool.get("parameters"))
    return {"type": "function", "function": function}
