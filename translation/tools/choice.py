"""`tool_choice` in the names the upstream is given."""

from collections.abc import Sequence
from typing import Any

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.names import Callee, ToolNames


def matches_choice(tool: Json, choice: Json) -> bool:
    """Whether a choice, or one entry of `allowed_tools`, is of this tool."""
    return (tool.get("type"), tool.get("name")) == (choice.get("type"), choice.get("name"))


def select_allowed_tools(tools: Sequence[Json], allowed: Sequence[Any]) -> list[Json]:
    """The tools that `allowed_tools` lists. Raises InvalidRequest where it lists one that is not there."""
    for choice in allowed:
        if not any(matches_choice(tool, choice) for tool in tools):
            raise InvalidRequest(
                f"tool_choice allows {choice.get('name')!r}, which is not in tools.", param="tool_choice.tools"
            )
    return [tool for tool in tools if any(matches_choice(tool, choice) for choice in allowed)]


_ALIASES = {"computer_use": "computer"}


def bridge_tool_choice(
    choice: str | Json | None, native: frozenset[str], names: ToolNames, losses: list[Loss]
) -> str | Json | None:
    """The choice for the upstream. Raises InvalidRequest when it forces a tool that is not there or nobody can run."""
    if not isinstance(choice, dict):
        return choice
    if choice["type"] == "allowed_tools":
        return _bridge_allowed_tools(choice, native, names, losses)
    [*chosen] = _resolve_choice(choice, native, names)
    if len(chosen) == 1:
        return choice if chosen[0] == choice else chosen[0]
    name = choice.get("name") or choice["type"]
    why = "names several tools; add `namespace`" if chosen else "forces a tool this model cannot be given"
    raise InvalidRequest(f"tool_choice {why}: {name!r}", param="tool_choice")


def _bridge_allowed_tools(choice: Json, native: frozenset[str], names: ToolNames, losses: list[Loss]) -> str | Json:
    allowed: list[Json] = []
    for i, tool in enumerate(choice["tools"]):
        chosen = _resolve_choice(tool, native, names)
        allowed += chosen
        if not chosen:
            losses.append(Loss(f"tool_choice.tools[{i}]", f"{tool.get('type')} left out"))
    if allowed == choice["tools"]:
        return choice
    if allowed:
        return {**choice, "tools": allowed}
    if choice["mode"] == "required":
        raise InvalidRequest("tool_choice allows only tools this model cannot be given", param="tool_choice.tools")
    return "none"


def _resolve_choice(choice: Json, native: frozenset[str], names: ToolNames) -> list[Json]:
    """Which of the upstream's tools a choice means: none, one, or all of a namespace."""
    choice_type: str = choice["type"]
    kind = _ALIASES.get(choice_type, choice_type)
    if kind == "namespace" and kind not in native:
        return [_tool_reference(callee, native, names) for callee in names.callees_in(choice["name"])]
    if kind not in ("function", "custom"):
        if kind in native:
            return [choice]
        return [_tool_reference(callee, native, names) for callee in names.callees_named(kind, kind)]
    if "namespace" in native and kind in native:
        return [choice]
    name: str = choice["name"]
    namespace = choice.get("namespace")
    callees = names.callees_named(kind, name)
    exact = [callee for callee in callees if callee.namespace == namespace]
    # Without a namespace the name of the only tool called so is clear enough.
    matching = exact if exact or namespace else callees
    return [_tool_reference(callee, native, names) for callee in matching]


def _tool_reference(callee: Callee, native: frozenset[str], names: ToolNames) -> Json:
    return {"type": callee.kind if callee.kind in native else "function", "name": names.wire_name(callee)}
