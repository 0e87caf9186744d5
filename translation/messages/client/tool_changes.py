"""Reads which tools the messages of a request add and remove: the turn has the tools that are offered at its end.

Names come from searches that the client runs (`tool_reference` in a result) and from instructions between turns
(`tool_addition`, `tool_removal`). https://platform.claude.com/docs/en/agents-and-tools/tool-use
"""

from collections.abc import Iterator, Sequence
from typing import Any

from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.representation.loss import Loss


class ToolChanges:
    """The changes that messages make to the tools of their request.

    Changes of MCP servers' tools are appended to `losses`.
    """

    def __init__(self, messages: Sequence[Json], losses: list[Loss]) -> None:
        self.defined: list[tuple[Json, str]] = []
        """The tools that messages define, each with the path of its definition."""
        self._offered: dict[str, bool] = {}
        self._losses = losses
        for block, param in _list_blocks(messages):
            self._read_block(block, param)

    def is_offered(self, tool: Json) -> bool:
        """Whether a tool is offered to the model at the end of the conversation."""
        return self._offered.get(tool["name"], not tool.get("defer_loading"))

    def _read_block(self, block: Json, param: str) -> None:
        kind = block.get("type")
        if kind == "tool_reference":
            self._offered[str(block.get("tool_name"))] = True
        elif kind in ("tool_addition", "tool_removal"):
            self._change(block.get("tool"), param, is_offered=kind == "tool_addition")

    def _change(self, tool: Any, param: str, *, is_offered: bool) -> None:
        match tool:
            case {"type": "tool_reference", "name": str(name)}:
                self._offered[name] = is_offered
            case {
                "type": "tool_definition",
                "definition": {"name": str(name), "input_schema": dict()} as definition,
            } if _is_function(definition):
                self.defined.append((definition, f"{param}.tool.definition"))
                self._offered[name] = True
            case {"type": str(kind)} if kind.startswith("mcp_"):
                self._losses.append(Loss("messages", f"{kind:.50} dropped"))
            case _:
                raise InvalidRequest(
                    f"Invalid value for '{param}.tool': send a tool_reference with a name, or a tool_definition whose "
                    "definition has a name and an input_schema, as a tool of the request has.",
                    param=f"{param}.tool",
                )


def _is_function(definition: Json) -> bool:
    """Whether the optional keys of a definition are those of a tool that the client runs."""
    return (
        definition.get("type") in (None, "custom")
        and isinstance(definition.get("description"), str | None)
        and isinstance(definition.get("strict"), bool | None)
    )


def apply_tool_changes(tools: Sequence[Json], messages: Sequence[Json]) -> list[Json]:
    """Returns the tools of a request after the changes of its messages, for a request that continues without these
    messages.

    A tool that is not offered is deferred, so that later messages can offer it again.
    """
    changes = ToolChanges(messages, [])
    changed: list[Json] = []
    for tool in [*tools, *(definition for definition, _ in changes.defined)]:
        if tool.get("type") in (None, "custom"):
            tool = {name: value for name, value in tool.items() if name != "defer_loading"} | (
                {} if changes.is_offered(tool) else {"defer_loading": True}
            )
        changed.append(tool)
    return changed


def _list_blocks(messages: Sequence[Json]) -> Iterator[tuple[Json, str]]:
    """Yields the blocks that may change tools, each with its path."""
    for index, message in enumerate(messages):
        content = message.get("content")
        for position, block in enumerate(content if isinstance(content, list) else ()):
            param = f"messages[{index}].content[{position}]"
            if block["type"] == "tool_result":
                inner = block.get("content")
                yield from ((each, param) for each in (inner if isinstance(inner, list) else ()))
            elif block["type"] == "compaction":
                yield from ((each, param) for each in block.get("tool_changes") or ())
            elif message["role"] == "system":
                yield block, param
