"""`tool_choice` in the names the upstream is given."""

from collections.abc import Sequence
from typing import Any

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.names import Callee, Names


def is_meant(tool: Json, choice: Json) -> bool:
    """Whether a choice, or one entry of `allowed_tools`, is of this tool."""
    return (tool.get("type"), tool.get("name")) == (choice.get("type"), choice.get("name"))


def allowed_tools(tools: Sequence[Json], allowed: Sequence[Any]) -> list[Json]:
    """The tools that `allowed_tools` lists. Raises InvalidRequest where it lists one that is not there."""
    for choice in allowed:
        if not any(is_meant(tool, choice) for tool in tools):
            raise InvalidRequest(
                f"tool_choice allows {choice.get('name')!r}, which is not in tools.", param="tool_choice.tools"
            )
    return [tool for tool in tools if any(is_meant(tool, choice) for choice in allowed)]


_ALIASES = {"computer_use": "computer"}


def choose(choice: str | Json | None, native: frozenset[str], names: Names, losses: list[Loss]) -> str | Json | None:
    """The choice for the upstream. Raises InvalidRequest when it forces a tool that is not there or nobody can run."""
    if not isinstance(choice, dict):
        return choice
    if choice["type"] == "allowed_tools":
        return _allowed(choice, native, names, losses)
    [*chosen] = _chosen(choice, native, names)
    if len(chosen) == 1:
        return choice if chosen[0] == choice else chosen[0]
    told = choice.get("name") or choice["type"]
    why = "names several tools; add `namespace`" if chosen else "forces a tool this model cannot be given"
    raise InvalidRequest(f"tool_choice {why}: {told!r}", param="tool_choice")


def _allowed(choice: Json, native: frozenset[str], names: Names, losses: list[Loss]) -> str | Json:
    allowed: list[Json] = []
    for i, tool in enumerate(choice["tools"]):
        chosen = _chosen(tool, native, names)
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


def _chosen(choice: Json, native: frozenset[str], names: Names) -> list[Json]:
    """Which of the upstream's tools a choice means: none, one, or all of a namespace."""
    said: str = choice["type"]
    kind = _ALIASES.get(said, said)
    if kind == "namespace" and kind not in native:
        return [_reference(callee, native, names) for callee in names.inside(choice["name"])]
    if kind not in ("function", "custom"):
        if kind in native:
            return [choice]
        return [_reference(callee, native, names) for callee in names.named(kind, kind)]
    if "namespace" in native and kind in native:
        return [choice]
    name: str = choice["name"]
    namespace = choice.get("namespace")
    callees = names.named(kind, name)
    exact = [callee for callee in callees if callee.namespace == namespace]
    # Without a namespace the name of the only tool called so is clear enough.
    meant = exact if exact or namespace else callees
    return [_reference(callee, native, names) for callee in meant]


def _reference(callee: Callee, native: frozenset[str], names: Names) -> Json:
    return {"type": callee.kind if callee.kind in native else "function", "name": names.wire(callee)}
