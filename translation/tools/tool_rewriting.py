"""Rewrites tools of every kind as function tools, for upstreams that know no other kind."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from operator import is_
from typing import Final, NamedTuple

from translation.errors import InvalidRequest
from translation.lowering.client_search import (
    TOOL_SEARCH,
    is_hidden,
    list_loaded_names,
    list_other_keys,
    show_members,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import ToolNameForm
from translation.representation.shared_tools import derive
from translation.representation.turn import Turn
from translation.tools.call_mapper import ToolCallMapper
from translation.tools.choice import find_remedy, rewrite_tool_choice
from translation.tools.function_schemas import FREEFORM_PARAMETERS
from translation.tools.kinds import CLIENT_TOOL_KINDS, runs_at_client
from translation.tools.names import ClientToolName, NameCheck, ToolNames, find_name_check
from translation.tools.past_tool_items import TOOL_FREE_TYPES, rewrite_items

_NAMED_KINDS: Final = ("function", "custom")
"""Kinds of tools whose names the client chooses."""

_NAMED_CALLS: Final = ("function_call", "custom_tool_call")


class RewrittenTurn(NamedTuple):
    """A turn that uses only kinds of tools which the upstream knows.

    `call_mapper` maps its events back; `None` if there is nothing to map.
    """

    turn: Turn
    call_mapper: ToolCallMapper | None
    losses: Sequence[Loss]


class _ToolEntry(NamedTuple):
    tool: Json
    position: int
    inner_position: int | None = None
    """The position within a namespace, for a tool of one."""
    namespace: str | None = None

    @property
    def param(self) -> str:
        inner = "" if self.inner_position is None else f".tools[{self.inner_position}]"
        return f"tools[{self.position}]{inner}"

    @property
    def key(self) -> tuple[str, str]:
        """What two tools must not have in common."""
        tool = self.tool
        name = tool.get("name") or f"{tool['type']} {tool.get('server_label', '')}"
        return (self.namespace or "").casefold(), name.casefold()

    @property
    def callee(self) -> ClientToolName:
        return ClientToolName(self.tool["type"], self.tool.get("name") or self.tool["type"], self.namespace)


def is_tool_free(turn: Turn) -> bool:
    """Whether a turn has no tools, no tool choice and no past calls, so that every upstream takes it unchanged."""
    return not turn.tools and turn.tool_choice is None and turn.item_types <= TOOL_FREE_TYPES


def rewrite_tools(
    turn: Turn,
    *,
    kinds: frozenset[str],
    hosted: frozenset[str],
    holds_grammars: bool = False,
    name_form: ToolNameForm = "any",
) -> RewrittenTurn:
    """Rewrites tools, tool choice and past calls for one upstream. The turn itself is returned if nothing changes.

    Tools whose names do not have the `name_form` of the upstream get others, which `call_mapper` maps back.

    `kinds` are the kinds of tools that the upstream's API knows. `hosted` are the hosted tools that it runs. With
    `holds_grammars` it can hold the input of a custom tool that must be called to the tool's grammar. Custom
    tools, namespaces and the kinds that a client runs become functions. Hosted tools that the upstream does not run are
    left out, and so are past calls of them; both are losses. If the client runs the search for tools, those that it
    defers are left out until it has found them, unless the upstream knows the search. Raises InvalidRequest for two
    tools of the same name, and for a tool choice that forces a tool which is not there.
    """
    native = kinds | hosted | {"function"}
    check = find_name_check(name_form)
    if "namespace" in native and check is not None and not _have_names(turn.tools, check):
        native -= {"namespace"}  # its tools get other names, so they cannot stay in it
    losses: list[Loss] = []
    if _are_distinct_functions(turn.tools, check):
        # Most tools are, and every upstream gets them as they are. Their names matter to other kinds of past calls.
        names = ToolNames((ClientToolName("function", tool["name"]) for tool in turn.tools), check)
        items = rewrite_items(turn.items, native, names, losses)
        tool_choice = rewrite_tool_choice(turn.tool_choice, native, names, losses)
        if tool_choice is turn.tool_choice and items is turn.items:
            return RewrittenTurn(turn, None, ())
        rewritten = replace(turn, items=items, tool_choice=tool_choice)
        return RewrittenTurn(rewritten, ToolCallMapper(names) if names else None, losses)
    carried: list[_ToolEntry] = []
    entries = _flatten_namespaces(turn.tools, native)
    if TOOL_SEARCH not in native and any(tool["type"] == TOOL_SEARCH and runs_at_client(tool) for tool in turn.tools):
        entries = [*_select_seen(entries, list_loaded_names(turn))]
        turn = replace(turn, unknown_keys=list_other_keys(turn.unknown_keys))
    for entry in _deduplicate(entries):
        kind = entry.tool["type"]
        if kind in native or kind == "custom" or runs_at_client(entry.tool):
            carried.append(entry)
        else:
            _refuse_connector(entry)
            losses.append(Loss(entry.param, f"{kind} left out"))
    # Tools that the upstream knows keep their names, so these are reserved before any other name is chosen.
    names = ToolNames((entry.callee for entry in carried if _keeps_name(entry, native, check)), check)
    tools = [
        entry.tool
        if entry.namespace is None
        and (kind := entry.tool["type"]) in native
        and (kind not in _NAMED_KINDS or _keeps_name(entry, native, check))
        else _lower_tool(entry, native, names, losses)
        for entry in carried
    ]
    items = rewrite_items(turn.items, native, names, losses)
    tool_choice = rewrite_tool_choice(turn.tool_choice, native, names, losses)
    if tool_choice == "required" and not tools:
        raise InvalidRequest(
            f"tool_choice requires a call, but this model supports none of the tools{find_remedy(turn.tools)}",
            param="tool_choice",
        )
    if tool_choice is turn.tool_choice and items is turn.items and _is_unchanged(tools, turn.tools):
        return RewrittenTurn(turn, None, ())
    rewritten = replace(turn, tools=tools, items=items, tool_choice=tool_choice)
    if holds_grammars and (position := _position_of_forced(tools, tool_choice)) is not None:
        forced = carried[position]
        if forced.callee.kind == "custom" and "custom" not in native and _has_grammar(forced.tool):
            losses.remove(_described_loss(forced.param))
            rewritten = replace(rewritten, input_grammars={tools[position]["name"]: forced.tool["format"]})
    return RewrittenTurn(rewritten, ToolCallMapper(names) if names else None, losses)


def has_accepted_names(turn: Turn, form: ToolNameForm) -> bool:
    """Whether all names of tools in a turn, its past calls included, have the form."""
    if (check := find_name_check(form)) is None:
        return True
    names = {item["name"] for item in turn.items if item["type"] in _NAMED_CALLS}
    return all(map(check, names)) and _have_names(turn.tools, check)


def _have_names(tools: Sequence[Json], check: NameCheck) -> bool:
    """Whether the names of tools and of the tools in namespaces pass a check. Tools of other kinds have no names."""
    return all(
        _have_names(tool["tools"], check)
        if tool["type"] == "namespace"
        else tool["type"] not in _NAMED_KINDS or check(tool.get("name") or "_")
        for tool in tools
    )


def _are_distinct_functions(tools: Sequence[Json], check: NameCheck | None) -> bool:
    """Whether all of these are functions, at least one, no two have the same name, whatever the case, and all names
    pass the check."""
    names = derive(tools, _list_distinct_names)
    return bool(names) and (check is None or all(map(check, names)))


def _list_distinct_names(tools: Sequence[Json]) -> list[str]:
    """Returns the names of tools that are functions and have different ones; none of any other tools."""
    names = [tool["name"] for tool in tools if tool["type"] == "function" and tool.get("name")]
    return names if len({name.casefold() for name in names}) == len(tools) else []


def _keeps_name(entry: _ToolEntry, native: frozenset[str], check: NameCheck | None) -> bool:
    kind = entry.tool["type"]
    if entry.namespace is not None or kind not in native or kind not in _NAMED_KINDS:
        return False
    return check is None or bool(check(entry.callee.name))


def _position_of_forced(tools: Sequence[Json], choice: str | Json | None) -> int | None:
    """Returns the position of the only function that the answer can be a call of; None if there are several, or none
    is required."""
    match choice:
        case "required":
            allowed = list(range(len(tools)))
        case {"type": "function", "name": name}:
            allowed = [position for position, tool in enumerate(tools) if tool.get("name") == name]
        case {"type": "allowed_tools", "mode": "required", "tools": [{"name": name}]}:
            allowed = [position for position, tool in enumerate(tools) if tool.get("name") == name]
        case _:
            allowed = []
    return allowed[0] if len(allowed) == 1 else None


def _has_grammar(tool: Json) -> bool:
    return (tool.get("format") or {}).get("type") == "grammar"


def _described_loss(param: str) -> Loss:
    return Loss(f"{param}.format", "described")


def _is_unchanged(new: Sequence[Json], old: Sequence[Json]) -> bool:
    return len(new) == len(old) and all(map(is_, new, old))


def _flatten_namespaces(tools: Sequence[Json], native: frozenset[str]) -> list[_ToolEntry]:
    """Returns the tools as a flat list. A namespace that the upstream does not know is replaced by its tools."""
    entries: list[_ToolEntry] = []
    for i, tool in enumerate(tools):
        if tool["type"] != "namespace" or "namespace" in native:
            entries.append(_ToolEntry(tool, i))
            continue
        for j, inner in enumerate(tool["tools"]):
            description = "\n\n".join(filter(None, (inner.get("description"), tool.get("description"))))
            described_tool = {**inner, "description": description} if description else inner
            entries.append(_ToolEntry(described_tool, i, j, tool["name"]))
    return entries


def _select_seen(entries: Sequence[_ToolEntry], loaded: frozenset[str]) -> Iterator[_ToolEntry]:
    """Yields the tools that the model sees. The others are found by the client's search."""
    for entry in entries:
        if entry.tool["type"] == "namespace":
            if (seen := show_members(entry.tool, loaded)) is not None:
                yield entry._replace(tool=seen)
        elif not is_hidden(entry.tool, entry.namespace, loaded):
            yield entry


def _refuse_connector(entry: _ToolEntry) -> None:
    """Raises InvalidRequest for a tool of a server that only OpenAI can reach: its answers would be missing."""
    for key in ("connector_id", "tunnel_id"):
        if entry.tool.get(key) and not entry.tool.get("server_url"):
            raise InvalidRequest(
                f"the model's upstream has no connectors or tunnels, nor has the gateway: send the `server_url` of "
                f"an MCP server instead of `{key}`",
                param=f"{entry.param}.{key}",
                code="unsupported_parameter",
            )


def _deduplicate(entries: list[_ToolEntry]) -> Collection[_ToolEntry]:
    """Removes repeated tools, which tool search produces. Raises InvalidRequest for two different tools of one name."""
    unique: dict[tuple[str, str], _ToolEntry] = {}
    for entry in entries:
        first = unique.setdefault(entry.key, entry)
        if first is entry:
            continue
        if _definition(first.tool) != _definition(entry.tool) or first.namespace != entry.namespace:
            raise InvalidRequest(
                f"two tools have the name {entry.tool.get('name') or entry.tool['type']!r}, here and at {first.param}; "
                "names must differ by more than upper and lower case",
                param=f"{entry.param}.name",
            )
    return unique.values()


def _definition(tool: Json) -> Json:
    return {key: value for key, value in tool.items() if key != "defer_loading"}


def _lower_tool(entry: _ToolEntry, native: frozenset[str], names: ToolNames, losses: list[Loss]) -> Json:
    """Returns a tool of a namespace, or of a kind that the upstream does not know, as the upstream gets it."""
    tool, callee = entry.tool, entry.callee
    if callee.kind in native:
        return {**tool, "name": names.claim(callee, tool)}
    if callee.kind == "custom":
        if _has_grammar(tool):
            losses.append(_described_loss(entry.param))
        function: Json = {"description": _freeform_description(tool), "parameters": FREEFORM_PARAMETERS}
    else:
        function = CLIENT_TOOL_KINDS[callee.kind].describe(tool)
    return {"type": "function", "name": names.claim(callee, tool), **function}


def _freeform_description(tool: Json) -> str:
    paragraphs = [tool.get("description") or ""]
    match tool.get("format"):
        case {"type": "grammar", "syntax": syntax, "definition": definition}:
            paragraphs.append(f"`input` must match this {syntax} grammar:\n{definition}")
    return "\n\n".join(filter(None, paragraphs))
