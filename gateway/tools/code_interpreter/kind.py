"""Code that models have run, as a kind of hosted tools: which tools of a request ask for it, and how."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from gateway.errors import ContainerNotFound
from gateway.tools.code_interpreter.form import CODE_INTERPRETER, CODE_INTERPRETER_FORM
from gateway.tools.executors.executor import ToolExecutor
from gateway.tools.executors.kind import ResponseContext, ToolKind, find_only_tool, find_unread_keys
from translation.errors import InvalidRequest
from translation.hosted.call_forms import CallForm
from translation.representation.json_types import Json, mapping_or_empty
from translation.representation.loss import Loss

if TYPE_CHECKING:
    from gateway.tools.mapped_tools.mapped_tool import MappedTool

_CONTAINER: Final = "container"
_KNOWN_KEYS: Final = frozenset({"type", _CONTAINER})
_CONTAINER_KEYS: Final = frozenset({"type", "file_ids", "network_policy"})
_REFUSED: Final[Mapping[str, str]] = {
    "file_ids": "code is run by a tool of an MCP server here, which gets no files: leave them out",
    "network_policy": "code is run by a tool of an MCP server here, whose network the gateway does not control: leave "
    "the policy out",
}
"""Keys of a container that a tool of an MCP server cannot honour, and that say what the code needs or must not do."""


class CodeInterpreterTools:
    """Runs the code of requests with the tool of an MCP server that stands for a code interpreter, if there is one, and
    unless the upstream runs it."""

    forms: Mapping[str, CallForm] = {CODE_INTERPRETER_FORM.item_type: CODE_INTERPRETER_FORM}

    def __init__(self, mapped_tool: "MappedTool | None") -> None:
        self._mapped_tool = mapped_tool

    def runs_tool(self, tool: Json) -> bool:
        return self._mapped_tool is not None and tool.get("type") == CODE_INTERPRETER

    async def prepare(self, tools: Sequence[Json], added: Sequence[Json], owner: str) -> ToolKind:
        return self

    def restrict_to_key(self, allowed_servers: Sequence[str]) -> ToolKind:
        if self._mapped_tool is None or self._mapped_tool.is_allowed(allowed_servers):
            return self
        return self._turn_off()

    def leave_to_upstream(self, hosted_tools: Collection[str]) -> ToolKind:
        return self._turn_off() if CODE_INTERPRETER in hosted_tools else self

    def find_losses(self, tools: Sequence[Json]) -> Iterator[Loss]:
        for position, tool in enumerate(tools):
            if self.runs_tool(tool):
                yield from find_unread_keys(tool, position, _KNOWN_KEYS)
                container = mapping_or_empty(tool.get(_CONTAINER))
                yield from find_unread_keys(container, position, _CONTAINER_KEYS, f"{_CONTAINER}.")

    def open_executors(self, tools: Sequence[Json], context: ResponseContext) -> list[ToolExecutor]:
        from gateway.tools.code_interpreter.executor import CodeInterpreterExecutor
        from gateway.tools.code_interpreter.mapped_runner import MappedRunner

        position = find_only_tool(tools, self.runs_tool, "a request may have one code interpreter: leave the other out")
        if self._mapped_tool is None or position is None:
            return []
        runner = MappedRunner(self._mapped_tool)
        _check_container(tools[position].get(_CONTAINER), f"tools[{position}].{_CONTAINER}", runner.container_id)
        return [CodeInterpreterExecutor(runner, sees_images=context.sees_images)]

    def _turn_off(self) -> "CodeInterpreterTools":
        turned_off = copy(self)
        turned_off._mapped_tool = None
        return turned_off


def _check_container(container: Any, param: str, own_id: str) -> None:
    """Raises InvalidRequest for a container that cannot be used, and ContainerNotFound for one that does not exist."""
    if isinstance(container, str):
        if container != own_id:
            raise ContainerNotFound(container, param=param)
        return
    if not isinstance(container, dict) or container.get("type") != "auto":
        raise InvalidRequest('container must be an id, or {"type": "auto"}', param=param)
    for key, reason in _REFUSED.items():
        if container.get(key):
            raise InvalidRequest(reason, param=f"{param}.{key}", code="unsupported_parameter")
