"""Searches for tools: who ran one, and which tools of its client a model does not see before."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from translation.representation.json_types import Item, Json
from translation.representation.loss import UnknownKey
from translation.representation.turn import Turn

TOOL_SEARCH: Final = "tool_search"
OUTPUT_ITEM: Final = "tool_search_output"

DEFER_LOADING: Final = "defer_loading"
"""The key of a tool that the model has to search for."""

_NAMESPACE: Final = "namespace"


def is_of_server(item: Item) -> bool:
    """Whether the server, and not the client, ran a search."""
    return item.get("execution") == "server" or not item.get("call_id")


def iterate_names(tools: Any) -> Iterator[str]:
    """Yields the names of tools, and of those in namespaces. A client may have written them."""
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        if tool.get("type") == _NAMESPACE:
            yield from (f"{tool.get('name')}.{name}" for name in iterate_names(tool.get("tools")))
        elif isinstance(name := tool.get("name"), str):
            yield name


def list_other_keys(keys: Iterable[UnknownKey]) -> list[UnknownKey]:
    """Returns the unknown keys of a request without those by which tools are deferred, which a search honours."""
    return [key for key in keys if key.key != DEFER_LOADING]


def list_loaded_names(turn: Turn) -> frozenset[str]:
    """Returns the names of the tools that searches of the client have loaded, or that the tool choice names.

    A tool of a namespace has the name of the namespace and a point before its own.
    """
    outputs = (item for item in turn.items if item["type"] == OUTPUT_ITEM and not is_of_server(item))
    loaded = {name for item in outputs for name in iterate_names(item.get("tools"))}
    if isinstance(choice := turn.tool_choice, dict):
        allowed = choice.get("tools")
        loaded.update(map(_name_choice, [choice] if allowed is None else allowed))
    return frozenset(loaded)


def _name_choice(choice: Json) -> str:
    namespace, name = choice.get("namespace"), choice.get("name") or ""
    return f"{namespace}.{name}" if namespace else name


def is_hidden(tool: Json, namespace: str | None, loaded: frozenset[str]) -> bool:
    """Whether the model does not see a tool yet. `loaded` is what `list_loaded_names` returns."""
    if not tool.get(DEFER_LOADING) or not tool.get("name"):
        return False
    return (tool["name"] if namespace is None else f"{namespace}.{tool['name']}") not in loaded


def show_members(namespace: Json, loaded: frozenset[str]) -> Json | None:
    """Returns a namespace without the tools that the model does not see yet; None if it sees none of them."""
    members: Sequence[Json] = namespace["tools"]
    seen = [tool for tool in members if not is_hidden(tool, namespace["name"], loaded)]
    if len(seen) == len(members):
        return namespace
    return {**namespace, "tools": seen} if seen else None
