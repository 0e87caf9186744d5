"""Runs code by a tool of an MCP server that the configuration maps onto `code_interpreter`."""

from collections.abc import Sequence
from typing import Final

from dataplane.sharing.work_pool import run_in_pool
from gateway.tools.code_interpreter.code_runner import CodeCallFailed, CodeOutput
from gateway.tools.executors.executor import OnProgress
from gateway.tools.mapped_tools.found_entries import MappedToolFailed
from gateway.tools.mapped_tools.mapped_tool import MappedTool

_NOT_RUN: Final = "The code could not be run, or its output cannot be read. Answer without it, or say so."
_UNKNOWN: Final = (
    "The outcome of the code is unknown: no result came, and it was not repeated. It may have run. Do not run it again "
    "if it changes anything."
)
_LOST: Final = frozenset({"connection_closed", "http_error", "server_removed", "session_lost", "timeout"})
"""The faults of a call after which its code may have run."""


def name_container(tool: MappedTool) -> str:
    """Returns the id that stands for the server of a tool in place of a container."""
    return f"cntr_mcp_{tool.label}"


class MappedRunner:
    """Is to the calls of a response what a container is."""

    def __init__(self, tool: MappedTool) -> None:
        self._tool = tool

    @property
    def container_id(self) -> str:
        return name_container(self._tool)

    def list_secrets(self) -> Sequence[str]:
        return self._tool.list_secrets()

    async def run(self, code: str, deadline_s: float, on_progress: OnProgress | None) -> CodeOutput:
        from gateway.tools.mapped_tools.tool_output import read_output  # it imports the library, which is large

        try:
            result = await self._tool.call({"code": code}, deadline_s, on_progress)
            output = await run_in_pool(read_output, result, self._tool)
        except MappedToolFailed as failed:
            raise CodeCallFailed(_UNKNOWN if failed.why in _LOST else _NOT_RUN) from None
        return CodeOutput(output.text, output.images, output.is_error)
