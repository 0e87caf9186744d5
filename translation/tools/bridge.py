"""Tools of every kind onto functions, for upstreams that know nothing else, and their calls back onto the kinds."""

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import NamedTuple

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.turn import Turn
from translation.tools.call_mapper import Calls
from translation.tools.choice import choose
from translation.tools.history import SPEECH, rewrite
from translation.tools.kinds import KINDS, client_runs
from translation.tools.names import Callee, Names
from translation.tools.schemas import FREEFORM_PARAMETERS


class Bridged(NamedTuple):
    """`turn` uses only what the upstream knows. `calls` maps its events back; `None` when there is nothing to map."""

    turn: Turn
    calls: Calls | None
    losses: Sequence[Loss]


class _Tool(NamedTuple):
    param: str
    tool: Json
    namespace: str | None = None

    @property
    def callee(self) -> Callee:
        return Callee(self.tool["type"], self.tool.get("name") or self.tool["type"], self.namespace)


def is_speech(turn: Turn) -> bool:
    """Whether a turn has nothing to do with tools: every upstream can be told it as it is."""
    return not turn.tools and turn.tool_choice is None and SPEECH.issuperset([item["type"] for item in turn.items])


def bridge(turn: Turn, *, kinds: frozenset[str], hosted: frozenset[str]) -> Bridged:
    """Rewrite tools, tool choice and past calls for an upstream that says `kinds` itself and runs `hosted` itself.

    Custom tools, namespaces and the kinds a client runs ride on functions. Tools nobody behind the upstream can run are
    left out, and so are past calls of them: losses. Raises InvalidRequest for two tools of one name, and for a tool
    choice that forces what is not there.
    """
    native = kinds | hosted | {"function"}
    names = Names()
    losses: list[Loss] = []
    carried: list[_Tool] = []
    for tool in _unique(_opened(turn.tools, native)):
        kind = tool.tool["type"]
        if kind in native or kind == "custom" or client_runs(tool.tool):
            carried.append(tool)
        else:
            losses.append(Loss(tool.param, f"{kind} left out"))
    for tool in carried:
        # What the upstream knows comes first: it keeps its name, and others make way.
        if tool.namespace is None and tool.tool["type"] in native and tool.tool["type"] in ("function", "custom"):
            names.keep(tool.callee)
    tools = [_said(tool, native, names, losses) for tool in carried]
    items = rewrite(turn.items, native, names, losses)
    tool_choice = choose(turn.tool_choice, native, names, losses)
    if tool_choice == "required" and not tools:
        raise InvalidRequest("tool_choice requires a call, but no tool is left to call", param="tool_choice")
    if tool_choice is turn.tool_choice and items is turn.items and _same(tools, turn.tools):
        return Bridged(turn, None, ())
    bridged = replace(turn, tools=tools, items=items, tool_choice=tool_choice)
    return Bridged(bridged, Calls(names) if names else None, losses)


def _same(new: Sequence[Json], old: Sequence[Json]) -> bool:
    return len(new) == len(old) and all(map(is_, new, old))


def _opened(tools: Sequence[Json], native: frozenset[str]) -> list[_Tool]:
    """Every tool on its own: a namespace the upstream does not know gives way to the tools in it."""
    opened: list[_Tool] = []
    for i, tool in enumerate(tools):
        if tool["type"] != "namespace" or "namespace" in native:
            opened.append(_Tool(f"tools[{i}]", tool))
            continue
        for j, inner in enumerate(tool["tools"]):
            described = "\n\n".join(filter(None, (inner.get("description"), tool.get("description"))))
            told = {**inner, "description": described} if described else inner
            opened.append(_Tool(f"tools[{i}].tools[{j}]", told, tool["name"]))
    return opened


def _unique(tools: list[_Tool]) -> list[_Tool]:
    """Tools found by tool search come again and again; two different tools of one name are a mistake."""
    seen: dict[tuple[str, str], _Tool] = {}
    unique: list[_Tool] = []
    for tool in tools:
        named = tool.tool.get("name")
        key = (tool.namespace or "", named or f"{tool.tool['type']} {tool.tool.get('server_label', '')}")
        first = seen.setdefault((key[0].casefold(), key[1].casefold()), tool)
        if first is tool:
            unique.append(tool)
        elif _definition(first.tool) != _definition(tool.tool) or first.namespace != tool.namespace:
            raise InvalidRequest(
                f"two tools are called {named or tool.tool['type']!r} ({first.param} is the other); "
                "names must differ by more than upper and lower case",
                param=f"{tool.param}.name",
            )
    return unique


def _definition(tool: Json) -> Json:
    return {key: said for key, said in tool.items() if key != "defer_loading"}


def _said(entry: _Tool, native: frozenset[str], names: Names, losses: list[Loss]) -> Json:
    """One tool as the upstream is told of it."""
    tool, callee = entry.tool, entry.callee
    if callee.kind in native:
        return tool if entry.namespace is None else {**tool, "name": names.claim(callee, tool)}
    if callee.kind == "custom":
        if (tool.get("format") or {}).get("type") == "grammar":
            losses.append(Loss(f"{entry.param}.format", "described"))
        told: Json = {"description": _freeform_description(tool), "parameters": FREEFORM_PARAMETERS}
    else:
        told = KINDS[callee.kind].describe(tool)
    return {"type": "function", "name": names.claim(callee, tool), **told}


def _freeform_description(tool: Json) -> str:
    paragraphs = [tool.get("description") or ""]
    match tool.get("format"):
        case {"type": "grammar", "syntax": syntax, "definition": definition}:
            paragraphs.append(f"`input` must match this {syntax} grammar:\n{definition}")
    return "\n\n".join(filter(None, paragraphs))
