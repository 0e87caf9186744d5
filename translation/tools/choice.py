"""Rewrites `tool_choice` for an upstream, with the names of tools that it is sent."""

from collections.abc import Iterable, Sequence
from typing import Any

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.names import ClientToolName, ToolNames
from translation.tools.searches import is_search_tool


def matches_choice(tool: Json, choice: Json) -> bool:
    """Whether a choice, or one entry of `allowed_tools`, names this tool."""
    return _type_and_name(tool) == _type_and_name(choice)


def _type_and_name(tool: Json) -> tuple[str | None, str | None]:
    return tool.get("type"), tool.get("name")


def select_allowed_tools(tools: Sequence[Json], allowed: Sequence[Any]) -> list[Json]:
    """Returns the tools that `allowed_tools` lists. Raises InvalidRequest if it lists one that is not in `tools`."""
    present, chosen = set(map(_type_and_name, tools)), set(map(_type_and_name, allowed))
    for choice in allowed:
        if _type_and_name(choice) not in present:
            raise InvalidRequest(
                f"tool_choice allows {choice.get('name')!r}, which is not in tools.", param="tool_choice.tools"
            )
    return [tool for tool in tools if _type_and_name(tool) in chosen]


def filter_allowed_tools(
    tools: Sequence[Json], choice: str | Json | None, losses: list[Loss]
) -> tuple[Sequence[Json], str | Json | None]:
    """Returns the tools and the choice for an API without `allowed_tools`: the other tools are not sent.

    Raises InvalidRequest if the choice asks for a tool and there are none, or allows one that is not in `tools`.
    """
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        tools = select_allowed_tools(tools, choice.get("tools") or ())
        choice = choice.get("mode") or "auto"
        losses.append(Loss("tool_choice", "allowed_tools filtered"))
    if not tools:
        require_no_choice(choice)
    return tools, choice


def require_no_choice(choice: str | Json | None) -> None:
    """Raises InvalidRequest if a choice asks for a tool, for a turn without tools."""
    if choice not in (None, "auto", "none"):
        raise InvalidRequest("tool_choice asks for a tool, but there are no tools.", param="tool_choice")


_SEARCH_REMEDY = (
    "; the operator can name an engine for it (tools.web_search.engine), which a tool with `external_web_access: "
    "false` never uses"
)


def find_remedy(tools: Iterable[Json]) -> str:
    """Returns how to make these tools run, behind the message that they do not; empty if there is no way."""
    return _SEARCH_REMEDY if any(map(is_search_tool, tools)) else ""


_ALIASES = {"computer_use": "computer"}
"""Type of a tool choice -> the type of its tool, where the two differ."""


def rewrite_tool_choice(
    choice: str | Json | None, native: frozenset[str], names: ToolNames, losses: list[Loss]
) -> str | Json | None:
    """Returns the choice for the upstream. Entries of `allowed_tools` that are left out are losses.

    Raises InvalidRequest if the choice forces a tool that is not there or that the upstream does not support.
    """
    if not isinstance(choice, dict):
        return choice
    if choice["type"] == "allowed_tools":
        return _rewrite_allowed_tools(choice, native, names, losses)
    [*chosen] = _resolve_choice(choice, native, names)
    if len(chosen) == 1:
        return choice if chosen[0] == choice else chosen[0]
    name = choice.get("name") or choice["type"]
    why = (
        "names several tools; add `namespace`"
        if chosen
        else "forces a tool that is not in tools or not supported by this model"
    )
    remedy = "" if chosen else find_remedy([choice])
    raise InvalidRequest(f"tool_choice {why}: {name!r}{remedy}", param="tool_choice")


def _rewrite_allowed_tools(choice: Json, native: frozenset[str], names: ToolNames, losses: list[Loss]) -> str | Json:
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
        raise InvalidRequest(
            f"tool_choice allows only tools that this model does not support{find_remedy(choice['tools'])}",
            param="tool_choice.tools",
        )
    return "none"


def _resolve_choice(choice: Json, native: frozenset[str], names: ToolNames) -> list[Json]:
    """Returns the tools of the upstream that a choice stands for: none, one, or all of a namespace."""
    choice_type: str = choice["type"]
    kind = _ALIASES.get(choice_type, choice_type)
    if kind == "namespace" and kind not in native:
        return [_tool_reference(callee, native, names) for callee in names.callees_in(choice["name"])]
    if kind not in ("function", "custom"):
        if kind in native:
            return [choice]
        return [_tool_reference(callee, native, names) for callee in names.callees_named(kind, kind)]
    if "namespace" in native and kind in native and names.keeps(choice["name"]):
        return [choice]
    name: str = choice["name"]
    namespace = choice.get("namespace")
    callees = names.callees_named(kind, name)
    exact = [callee for callee in callees if callee.namespace == namespace]
    # A choice may leave the namespace out if only one tool has the name.
    matching = exact if exact or namespace else callees
    return [_tool_reference(callee, native, names) for callee in matching]


def _tool_reference(callee: ClientToolName, native: frozenset[str], names: ToolNames) -> Json:
    return {"type": callee.kind if callee.kind in native else "function", "name": names.wire_name(callee)}
