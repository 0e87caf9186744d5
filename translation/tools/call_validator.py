"""Validates calls that a model wrote against the tools of the turn."""

from collections.abc import Sequence
from typing import Any, Final

import jsonschema_rs
import orjson

from translation.representation.json_types import Json
from translation.tools.declared_functions import functions_of
from translation.tools.schema_cost import SchemaTooLarge, count_subschemas

UNKNOWN_TOOL_FAULT: Final = "there is no such tool"

_MAX_STEPS: Final = 2_000_000
"""The limit of subschemas times values in the arguments. Above it validation would take over a tenth of a second."""

LINEAR_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=1 << 17)
"""The regular expression engine with linear time, and a limit on the size of patterns."""

_MAX_REASON_CHARS: Final = 300


class CallValidator:
    """Validates calls of these tools, which are in the form of chat or of Responses.

    A schema that is invalid or too expensive is not checked.
    """

    def __init__(self, tools: Sequence[Json], max_args_bytes: int) -> None:
        self.max_args_bytes = max_args_bytes
        self._schemas = {tool.name: tool.parameters for tool in functions_of(tools)}
        self._checks: dict[str, _SchemaCheck | None] = {}

    def has_tool(self, name: str) -> bool:
        """Whether there is a function of this name."""
        return name in self._schemas

    def fault_of(self, name: str, arguments: str) -> str | None:
        """Returns why this call is invalid, in a few words; None if it is valid."""
        if not self.has_tool(name):
            return UNKNOWN_TOOL_FAULT
        if len(arguments) > self.max_args_bytes or len(arguments.encode()) > self.max_args_bytes:
            return self.too_long_reason
        try:
            value = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return "the arguments are not valid JSON"
        if not isinstance(value, dict):
            return "the arguments are not an object"
        if name not in self._checks:
            self._checks[name] = _build_check(self._schemas[name])
        check = self._checks[name]
        return None if check is None else check.fault_of(value, arguments)

    @property
    def too_long_reason(self) -> str:
        """The fault of arguments that are longer than `max_args_bytes`."""
        return f"the arguments are longer than {self.max_args_bytes} bytes"


class _SchemaCheck:
    def __init__(self, schema: Json, size: int) -> None:
        self._size = size
        self._validator = jsonschema_rs.validator_for(
            schema, offline=True, validate_formats=False, pattern_options=LINEAR_PATTERNS
        )

    def fault_of(self, value: Any, text: str) -> str | None:
        values = 1 + sum(map(text.count, ",{["))
        if values * self._size > _MAX_STEPS:
            return None
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
            return f"arguments{place}: {error.message}"[:_MAX_REASON_CHARS]
        except ValueError:  # the invalid value is nested too deep to be put into the error
            return "the arguments are too deep"
        return None


def _build_check(schema: Json) -> _SchemaCheck | None:
    try:
        return _SchemaCheck(schema, count_subschemas(schema))
    except (SchemaTooLarge, ValueError):
        return None
