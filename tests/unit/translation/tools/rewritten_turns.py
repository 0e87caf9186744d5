"""Tools of every kind, and turns that are rewritten."""

from typing import Any

from translation.representation.json_types import Json
from translation.representation.turn import Turn
from translation.tools.tool_rewriting import RewrittenTurn, rewrite_tools

FUNCTION: Json = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": True}
PATCH: Json = {
    "type": "custom",
    "name": "apply_patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: line+"},
}
ADDER: Json = {
    "type": "namespace",
    "name": "mcp__adder",
    "description": "Sums.",
    "tools": [{"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object"}}],
}

CHAT = frozenset({"function"})


def turn(*tools: Json, tool_choice: Any = None, items: list[Json] | None = None) -> Turn:
    return Turn(model="m", items=items or [], tools=tools, tool_choice=tool_choice)


def rewritten(
    *tools: Json, kinds: frozenset[str] = CHAT, hosted: frozenset[str] = frozenset(), **params: Any
) -> RewrittenTurn:
    return rewrite_tools(turn(*tools, **params), kinds=kinds, hosted=hosted)


def function(name: str, description: str, parameters: Json) -> Json:
    return {"type": "function", "name": name, "description": description, "parameters": parameters}
