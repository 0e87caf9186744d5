"""Large results: the model reads their beginning and end, and can read on with a tool of the gateway itself."""

from collections.abc import Callable, Iterator
from typing import Final

import jsonschema_rs

from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.tools import HostedTool, ToolKey
from translation.representation.json_types import Json
from translation.tools.call_validator import LINEAR_PATTERNS

_NAME: Final = "read_result"
_LABEL: Final = "gateway"
_MAX_PAGE_CHARS: Final = 20_000
_MAX_PATTERN_CHARS: Final = 500
_MAX_LINE_CHARS: Final = 400
_LINE_STEP: Final = 300
"""Longer lines are searched and returned in pieces of `_MAX_LINE_CHARS`.

The pieces begin this far apart, so they overlap.
"""

READ_RESULT: Final = HostedTool(
    key=ToolKey(_LABEL, _NAME),
    prefix="",
    description="Reads on in a tool result that was cut because of its length. With an offset it returns the text from "
    "that character on; with a pattern, a regular expression, the lines that match it.",
    parameters={
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id of the result, as the cut names it."},
            "offset": {"type": "integer", "minimum": 0, "description": "The first character to read; 0 by default."},
            "pattern": {"type": "string", "minLength": 1, "maxLength": _MAX_PATTERN_CHARS},
        },
        "required": ["id"],
        "additionalProperties": False,
    },
    is_read_only=True,
    needs_approval=False,
    origin=_LABEL,
    is_repeatable=True,
)
"""The tool that reads on. It is offered once a result was cut."""

_CUT: Final = (
    "\n[… {count} of {total} characters left out. Read them with {name}, id {id!r}, offset {offset}, or a pattern …]\n"
)


class ResultReader:
    """The results of one response, and of its history, that are too long for the model to read as a whole."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._page_chars = min(max_chars, _MAX_PAGE_CHARS)
        self._texts: dict[str, str] = {}

    @property
    def has_results(self) -> bool:
        """Whether a result was cut, so that there is something to read."""
        return bool(self._texts)

    def is_too_long(self, text: str) -> bool:
        """Whether a result is cut."""
        return len(text) > self._max_chars

    def cut(self, result_id: str, text: str) -> str:
        """Returns the text of a result for the model. If it is too long, that is its beginning, a tenth of that from
        its end, and between them how the rest is read."""
        if not self.is_too_long(text):
            return text
        self._texts[result_id] = text
        tail = self._max_chars // 10
        head = self._max_chars - tail
        left_out = len(text) - self._max_chars
        note = _CUT.format(count=left_out, total=len(text), name=_NAME, id=result_id, offset=head)
        return text[:head] + note + text[len(text) - tail :]

    def read(self, arguments: Json) -> ToolOutcome:
        """Returns the outcome of a call of `READ_RESULT`, whose arguments follow its schema."""
        result_id, offset = arguments["id"], arguments.get("offset", 0)
        if (text := self._texts.get(result_id)) is None:
            known = ", ".join(self._texts) or "none"
            return build_execution_error(f"There is no result {result_id!r} to read on in. Results: {known}")
        if offset >= len(text):
            return build_execution_error(f"The offset is beyond the end: the result has {len(text)} characters")
        pattern = arguments.get("pattern")
        if pattern is not None:
            return ToolOutcome(output=self._find_lines(text, offset, pattern))
        end = min(offset + self._page_chars, len(text))
        more = f"\n[Read on with offset {end}]" if end < len(text) else ""
        return ToolOutcome(output=f"[Characters {offset} to {end} of {len(text)}]\n{text[offset:end]}{more}")

    def _find_lines(self, text: str, offset: int, pattern: str) -> str:
        matches = _matcher_of(pattern)
        lines: list[str] = []
        size = 0
        for start, line in _lines_of(text, offset):
            if not matches(line):
                continue
            if lines and size + len(line) > self._page_chars:
                lines.append(f"[There are more: read on with offset {start}]")
                break
            size += len(line)
            lines.append(f"[offset {start}] {line}")
        return "\n".join(lines) or f"[No line from offset {offset} on matches {pattern!r}]"


def _matcher_of(pattern: str) -> Callable[[str], bool]:
    """Returns whether a text has a match. The expression is matched in linear time; what is no expression for that is
    searched literally."""
    try:
        return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=LINEAR_PATTERNS).is_valid
    except ValueError:
        return lambda line: pattern in line


def _lines_of(text: str, offset: int) -> Iterator[tuple[int, str]]:
    """Yields the lines with their offsets; long ones in pieces that overlap."""
    while offset < len(text):
        end = text.find("\n", offset)
        end = len(text) if end < 0 else end
        if end - offset <= _MAX_LINE_CHARS:
            yield offset, text[offset:end]
            offset = end + 1
        else:
            yield offset, text[offset : offset + _MAX_LINE_CHARS]
            offset += _LINE_STEP
