"""Lowers `tools`, `tool_choice` and `parallel_tool_calls` to chat's nested form."""

from collections.abc import Iterator, Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.shared_tools import SharedTools, derive
from translation.tools.choice import filter_allowed_tools, matches_choice
from translation.tools.declared_functions import complete_parameters
from translation.tools.names import require_tool_name

_TOOL_KEYS: Final = {
    "function": ("name", "description", "parameters", "strict"),
    "custom": ("name", "description", "format"),
}
"""Type of a tool -> the keys of its object in chat, which is under the tool's type."""


_TEXT_FORMAT: Final[Json] = {"type": "text"}

_CHOICE_TYPES: Final = frozenset({*_TOOL_KEYS, "allowed_tools"})


def lower_tools(tools: Sequence[Json], choice: str | Json | None, parallel: bool | None, losses: list[Loss]) -> Json:
    """Returns `tools`, `tool_choice` and `parallel_tool_calls` as keys of a chat body; an empty object without tools.

    For `allowed_tools`, the other tools are not sent, which has the same meaning to an upstream that does not know it.
    Raises InvalidRequest for a bad name or a choice of a tool that is not in `tools`, and Unrepresentable for types of
    tools that chat does not have.
    """
    tools, choice = filter_allowed_tools(tools, choice, losses)
    if not tools:
        return {}
    lowered, tool_losses = derive(tools, _lower_all)
    losses += tool_losses
    body: Json = {"tools": lowered}
    if choice is not None:
        body["tool_choice"] = choice if isinstance(choice, str) else _lower_named_choice(choice, tools)
    if parallel is not None:
        body["parallel_tool_calls"] = parallel
    return body


def restrict_to_chosen_tools(body: Json, losses: list[Loss]) -> None:
    """Removes the tools that `tool_choice` does not name from a chat body, in place, and the names from `tool_choice`.

    For upstreams that ignore names there. Raises InvalidRequest if it names a tool that is not in `tools`.
    """
    choice = body.get("tool_choice")
    if not isinstance(choice, dict) or choice["type"] not in _CHOICE_TYPES:
        return
    losses += _find_choice_losses(choice)
    single = choice["type"] != "allowed_tools"
    choices = [choice] if single else choice["allowed_tools"]["tools"]
    tools = {_tool_key(tool): tool for tool in body["tools"]}
    allowed = {_tool_key(tool) for tool in choices}
    if missing := sorted(name for _, name in allowed - tools.keys()):
        raise InvalidRequest(f"tool_choice names {missing[0]!r}, which is not in tools.", param="tool_choice")
    chosen = [tool for name, tool in tools.items() if name in allowed]
    if len(chosen) < len(body["tools"]):
        losses.append(Loss("tool_choice", "other tools left out"))
    body["tools"] = chosen
    body["tool_choice"] = "required" if single else choice["allowed_tools"]["mode"]


def remove_format_beside_forced_call(body: Json, losses: list[Loss], *, format_param: str) -> None:
    """Removes the format of the answer from a chat body that requires a call, in place: the reply will be the call.

    For upstreams that give the whole reply the format, so that no call is made, as llama.cpp does.
    """
    if body.get("tool_choice") != "required":
        return
    for key, param in (("response_format", format_param), ("json_schema", "json_schema")):
        if body.get(key) is not None and body[key] != _TEXT_FORMAT:
            del body[key]
            losses.append(Loss(param, "dropped"))


def _find_choice_losses(choice: Json) -> Iterator[Loss]:
    """Yields the losses of keys that chat's choices do not have, from a choice that is replaced by a word."""
    kind = choice["type"]
    named = choice[kind]
    tools = named.get("tools", ())
    places = [("tool_choice", choice, {"type", kind}), (f"tool_choice.{kind}", named, {"name", "mode", "tools"})]
    places += [(f"tool_choice.{kind}.tools", tool, {"type", tool["type"]}) for tool in tools]
    places += [(f"tool_choice.{kind}.tools.{tool['type']}", tool[tool["type"]], {"name"}) for tool in tools]
    for path, value, known in places:
        yield from (Loss(f"{path}.{key:.50}", "dropped") for key in value if key not in known and value[key])


def _tool_key(tool: Json) -> tuple[str, str]:
    """Returns (type, name) of a tool or a choice in chat's nested form. Only the upstream knows other types."""
    named = tool.get(tool["type"])
    return tool["type"], str(named.get("name")) if isinstance(named, dict) else ""


def _lower_all(tools: Sequence[Json]) -> tuple[list[Json], list[Loss]]:
    """Returns the tools in chat's form, and their losses. What is made of shared tools is shared too."""
    losses: list[Loss] = []
    lowered = [_lower_tool(tool, f"tools[{index}]", losses) for index, tool in enumerate(tools)]
    return (SharedTools(lowered) if isinstance(tools, SharedTools) else lowered), losses


def _lower_tool(tool: Json, param: str, losses: list[Loss]) -> Json:
    kind = tool.get("type", "")
    if kind not in _TOOL_KEYS:
        raise Unrepresentable(f"this model's API has no tools of type {kind!r}", param=param)
    require_tool_name(tool, param)
    keys = _TOOL_KEYS[kind]
    lowered: Json = {}
    for key in keys:
        # `strict: false` is what chat's functions are without it, and some servers refuse keys that they do not know.
        if (value := tool.get(key)) is not None and not (key == "strict" and value is False):
            lowered[key] = value
    if len(tool) > 1 + len(lowered):
        losses += [
            Loss(f"tools.{key}", "dropped") for key, value in tool.items() if value and key not in ("type", *keys)
        ]
    if "parameters" in lowered:
        lowered["parameters"] = complete_parameters(lowered["parameters"])
    if kind == "custom" and lowered.get("format", {}).get("type") == "grammar":
        grammar = {key: value for key, value in lowered["format"].items() if key != "type"}
        lowered["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": kind, kind: lowered}


def _lower_named_choice(choice: Json, tools: Sequence[Json]) -> Json:
    kind = choice.get("type", "")
    if kind not in _TOOL_KEYS:
        raise Unrepresentable(f"this model's API has no tool_choice of type {kind!r}", param="tool_choice")
    if not any(matches_choice(tool, choice) for tool in tools):
        raise InvalidRequest(f"tool_choice names {choice.get('name')!r}, which is not in tools.", param="tool_choice")
    return {"type": kind, kind: {"name": choice["name"]}}
