"""Lifts the tools of a request of the Messages API, and its choice of tools."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.lowering.closed_schemas import close_objects
from translation.messages.client.client_tools import describe_client_tool
from translation.messages.client.mcp_servers import TOOLSET
from translation.messages.client.tool_changes import ToolChanges
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.tools.searches import WEB_SEARCH, is_search_tool

_TOOL_KEYS: Final = frozenset({"type", "name", "description", "input_schema", "strict"})

_HINT_KEYS: Final = frozenset({"cache_control", "defer_loading", "eager_input_streaming"})
"""Keys that only say how the tool is sent or cached, and not what it is."""

_FILTER_KEYS: Final = ("allowed_domains", "blocked_domains")

_SEARCH_KEYS: Final = frozenset({"type", "name", "max_uses", "user_location", *_FILTER_KEYS})

_TOOL_SEARCH: Final = "tool_search_tool_"

_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


def lift_tools(tools: Sequence[Json], messages: Sequence[Json], losses: list[Loss], *, relayed: bool) -> list[Json]:
    """Returns the tools as those of the Responses API. Losses are appended to `losses`.

    A tool with `defer_loading` is left out until a message names it, unless Anthropic's own search would have to find
    it. Messages may add and withdraw tools too (`ToolChanges`). Raises InvalidRequest for a search with two lists of
    domains. Unless `relayed`, raises it for a malformed change too, and Unrepresentable for a tool that Anthropic runs
    and no other upstream has.
    """
    changes = ToolChanges(() if relayed else messages, losses)
    searches = any(str(tool.get("type")).startswith(_TOOL_SEARCH) for tool in tools)
    lifted: list[Json] = []
    for tool, param in [*((tool, f"tools[{index}]") for index, tool in enumerate(tools)), *changes.defined]:
        tool = tool if relayed else describe_client_tool(tool)
        kind = tool.get("type") or "custom"
        if kind == TOOLSET:
            continue  # lifted with its server
        if kind.startswith(_TOOL_SEARCH):
            losses.append(Loss(param, f"{kind:.50} left out"))
        elif kind != "custom":
            lifted += _lift_own(tool, kind, param, losses, relayed=relayed)
        elif changes.is_offered(tool) or (searches and tool.get("defer_loading")):
            lifted.append(_lift_function(tool, losses))
    return lifted


def _lift_function(tool: Json, losses: list[Loss]) -> Json:
    losses += [
        Loss(f"tools.{key:.50}", "dropped")
        for key, value in tool.items()
        if value and key not in _TOOL_KEYS and key not in _HINT_KEYS and value != ["direct"]
    ]
    closed = close_objects(tool["input_schema"]) if tool.get("strict") else None
    if tool.get("strict") and closed is None:
        losses.append(Loss("tools.strict", "dropped"))
    lifted = {"type": "function", "name": tool["name"], "parameters": closed or tool["input_schema"]}
    if tool.get("description"):
        lifted["description"] = tool["description"]
    # The Responses API holds arguments to a schema by default, and this API does not.
    lifted["strict"] = closed is not None
    return lifted


def _lift_own(tool: Json, kind: str, param: str, losses: list[Loss], *, relayed: bool) -> Iterator[Json]:
    """Yields the Responses tool for a type of Anthropic's own."""
    if is_search_tool(tool):
        yield _lift_search(tool, param, losses)
    elif not relayed:
        raise Unrepresentable(f"this model's upstream has no tool of type {kind!r:.100}: leave it out", param=param)


def _lift_search(tool: Json, param: str, losses: list[Loss]) -> Json:
    if all(tool.get(key) for key in _FILTER_KEYS):
        raise InvalidRequest(
            f"Invalid value for '{param}.blocked_domains': a search has either these or 'allowed_domains'.",
            param=f"{param}.blocked_domains",
        )
    losses += [
        Loss(f"{param}.{key:.50}", "dropped")
        for key, value in tool.items()
        if value and key not in _SEARCH_KEYS and key not in _HINT_KEYS and value != ["direct"]
    ]
    search: Json = {"type": WEB_SEARCH}
    if filters := {key: tool[key] for key in _FILTER_KEYS if tool.get(key)}:
        search["filters"] = filters
    return search | {key: tool[key] for key in ("user_location", "max_uses") if tool.get(key)}


def lift_tool_choice(
    choice: Mapping[str, Any] | None, tools: Sequence[Json] = ()
) -> tuple[str | Json | None, bool | None]:
    """Returns `tool_choice` and `parallel_tool_calls` of a turn with these lifted tools.

    A choice that only an upstream of the same API knows is none.
    """
    if choice is None:
        return None, None
    parallel = False if choice.get("disable_parallel_tool_use") else None
    if choice["type"] == "tool":
        if choice["name"] == WEB_SEARCH and any(map(is_search_tool, tools)):
            return {"type": WEB_SEARCH}, parallel
        return {"type": "function", "name": choice["name"]}, parallel
    return _CHOICES.get(choice["type"]), parallel
