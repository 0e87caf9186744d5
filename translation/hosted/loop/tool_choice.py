"""The tool choice of the rounds of a response, in which hosted tools are functions."""

from collections.abc import Sequence
from typing import Final

from translation.errors import InvalidRequest
from translation.hosted.tools import HostedTool, ToolCatalogue
from translation.representation.json_types import Json
from translation.representation.turn import Turn

_NO_TOOL: Final = "Tool choice {choice!r} not found in 'tools' parameter."


class RoundChoices:
    """The tool choices of the rounds of one response. `turn` has the client's own tools.

    A choice that requires a call applies to the first round only, unless an approved call came before: otherwise the
    model could never answer. Raises InvalidRequest for a choice that requires a call of a missing tool.
    """

    def __init__(self, turn: Turn, catalogue: ToolCatalogue) -> None:
        self._has_own_tools = bool(turn.tools)
        self._hosted_names = frozenset(catalogue.tools)
        self._first = _map_choice(turn.tool_choice, catalogue)
        if self._first == "required" and not (turn.tools or catalogue.tools):
            raise InvalidRequest("tool_choice is 'required', but there are no tools", param="tool_choice")

    @property
    def names(self) -> Sequence[str]:
        """The names of the tools that the choice of the first round names."""
        chosen = self._first if isinstance(self._first, dict) else {}
        return [each["name"] for each in [chosen, *(chosen.get("tools") or ())] if each.get("name")]

    def choose_for_round(self, *, is_first: bool, offers_hosted: bool) -> str | Json | None:
        """Returns the choice of a round. It is None in a round without tools."""
        if not self._has_own_tools and not (offers_hosted and self._hosted_names):
            return None
        choice = self._first if is_first else _relax_choice(self._first)
        if offers_hosted or not isinstance(choice, dict):
            return choice
        if choice["type"] != "allowed_tools":
            return "auto" if choice.get("name") in self._hosted_names else choice
        return _with_allowed(choice, [tool for tool in choice["tools"] if tool.get("name") not in self._hosted_names])


def list_allowed_names(choice: str | Json | None) -> frozenset[str] | None:
    """Returns the names of the tools that the choice of a round allows to call; None if it allows all."""
    if choice == "none":
        return frozenset()
    if not isinstance(choice, dict) or choice["type"] != "allowed_tools":
        return None
    return frozenset(tool["name"] for tool in choice["tools"] if tool.get("name"))


def _map_choice(choice: str | Json | None, catalogue: ToolCatalogue) -> str | Json | None:
    """Returns a choice in which entries for hosted tools are the functions that stand for them."""
    if not isinstance(choice, dict):
        return choice
    chosen = _functions_of(choice, catalogue)
    if choice["type"] == "mcp" and not chosen:
        name = ".".join(choice[key] for key in ("server_label", "name") if choice.get(key))
        raise InvalidRequest(_NO_TOOL.format(choice=name or "mcp"), param="tool_choice")
    if chosen:
        return chosen[0] if len(chosen) == 1 else {"type": "allowed_tools", "mode": "required", "tools": chosen}
    if choice["type"] != "allowed_tools":
        return choice
    allowed: list[Json] = []
    for tool in choice["tools"]:
        chosen = _functions_of(tool, catalogue)
        allowed += chosen if chosen or tool.get("type") == "mcp" else [tool]
    if not allowed and choice.get("mode") == "required":
        raise InvalidRequest(_NO_TOOL.format(choice="allowed_tools"), param="tool_choice")
    return _with_allowed(choice, allowed)


def _functions_of(choice: Json, catalogue: ToolCatalogue) -> list[Json]:
    """Returns the functions that stand for the hosted tools of a choice; none for a choice of other tools. The type of
    a hosted tool may have a version: web_search_2025_08_26."""
    return [{"type": "function", "name": name} for name, tool in catalogue.tools.items() if _is_chosen(tool, choice)]


def _is_chosen(tool: HostedTool, choice: Json) -> bool:
    kind = str(choice.get("type"))
    if kind != "mcp":
        return tool.choice_type != "mcp" and kind.startswith(tool.choice_type)
    return tool.key.server == choice.get("server_label") and choice.get("name") in (None, tool.key.name)


def _with_allowed(choice: Json, allowed: list[Json]) -> str | Json:
    """Returns an `allowed_tools` choice with these tools. Without any, no tool may be called."""
    return {**choice, "tools": allowed} if allowed else "none"


def _relax_choice(choice: str | Json | None) -> str | Json | None:
    """Returns the choice of the rounds after the first: a call that was required has been made."""
    if isinstance(choice, dict):
        return {**choice, "mode": "auto"} if choice["type"] == "allowed_tools" else "auto"
    return "auto" if choice == "required" else choice
