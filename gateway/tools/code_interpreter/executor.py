"""Runs the code that a model writes in one response."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import orjson

from gateway.tools.code_interpreter.code_runner import CodeCallFailed, CodeRunner
from gateway.tools.code_interpreter.form import CODE_INTERPRETER, CodeInterpreterForm, read_code
from gateway.tools.executors.executor import Allows, CacheKey, ListedTools, OnProgress, ToolSource
from translation.hosted.calls import HostedCall
from translation.hosted.citations.citation_table import build_result_details, remove_markers
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.tools import HostedTool, ToolKey
from translation.representation.json_types import Json

_NO_OUTPUT: Final = "[The code wrote nothing.]"
_NO_CODE: Final = "The call was not run: it has no code"

_DEFINITION: Final[Json] = {
    "name": CODE_INTERPRETER,
    "description": "Runs Python code, and returns what it writes.",
    "input_schema": {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The code."}},
        "required": ["code"],
    },
    "annotations": {"read_only": False},
}


class CodeInterpreterExecutor:
    """Runs code for one response. A call whose outcome is unknown is not repeated: code may do anything."""

    source: Final = ToolSource(label=CODE_INTERPRETER, shows_list=False, has_clean_lists=True)

    def __init__(self, runner: CodeRunner, *, sees_images: bool) -> None:
        self.cache_key: Final = CacheKey([{"label": CODE_INTERPRETER, "container": runner.container_id}])
        self._runner = runner
        self._form: Final = CodeInterpreterForm(runner.container_id)
        self._sees_images = sees_images

    def list_secrets(self) -> Sequence[str]:
        return self._runner.list_secrets()

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return ListedTools([_DEFINITION] if allows(CODE_INTERPRETER, False) else [])

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return self.find_known_tools(allows) or ListedTools(())

    def keep_list(self) -> None:
        """Does nothing: the tool is always the same."""

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [
            HostedTool(
                key=ToolKey(CODE_INTERPRETER, each["name"]),
                parameters=each["input_schema"],
                description=each["description"],
                needs_approval=False,
                prefix="",
                form=self._form,
                choice_type=CODE_INTERPRETER,
                checks_arguments=False,
            )
            for each in definitions
        ]

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        code = read_code(orjson.loads(call.arguments))
        if not code.strip():
            return build_execution_error(_NO_CODE)
        try:
            output = await self._runner.run(code, deadline_s, on_progress)
        except CodeCallFailed as fault:
            return fault.as_outcome()
        text = remove_markers(output.logs) or _NO_OUTPUT
        outputs: list[Json] = [{"type": "logs", "logs": output.logs}] if output.logs else []
        outputs += [{"type": "image", "url": image} for image in output.images]
        outcome = build_execution_error(text) if output.has_failed else ToolOutcome(output=text)
        media = [{"type": "input_image", "image_url": image} for image in output.images] if self._sees_images else []
        return replace(outcome, media=media, fields={"outputs": outputs, "details": build_result_details(text, {})})

    async def close(self) -> None:
        """Does nothing: what runs the code outlives the response."""
