"""What the hosted tools of a response have done, as numbers: the `gateway_report` of a response."""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from translation.representation.json_types import Json

TOOL_REPORT: Final = "gateway_report"
"""The key of the report in a response, and the fact by which it gets there."""

CallNote: TypeAlias = Literal["skipped", "cut", "redacted", "by_words"]
"""What happened to a call: it was not run; its result was cut; credentials were removed from its result."""

UNKNOWN_TOOL: Final = "unknown"
"""Stands for the names of tools that do not exist, which a model has made up."""

_COUNTS: Final = ("calls", "failed", "ms", "bytes", "results")
_MAX_TOOLS: Final = 100
_OTHERS: Final = "others"
"""Counts the calls of all tools after the first `_MAX_TOOLS`."""


class CallFigures(NamedTuple):
    """The numbers of one call that has ended. `size` is that of its result in bytes, and `elapsed_ms` its time."""

    has_failed: bool
    elapsed_ms: int = 0
    size: int = 0
    results: int = 0
    notes: Sequence[CallNote] = ()


class ToolReport:
    """Adds up the calls of one response."""

    def __init__(self) -> None:
        self._tools: dict[str, dict[str, int]] = {}
        self._notes: dict[tuple[str, CallNote], int] = {}

    def __bool__(self) -> bool:
        """Whether there was a call."""
        return bool(self._tools)

    def add_call(self, tool: str, figures: CallFigures) -> None:
        """Adds a call of a tool."""
        name = tool if tool in self._tools or len(self._tools) < _MAX_TOOLS else _OTHERS
        counts = self._tools.setdefault(name, dict.fromkeys(_COUNTS, 0))
        counts["calls"] += 1
        counts["failed"] += figures.has_failed
        counts["ms"] += figures.elapsed_ms
        counts["bytes"] += figures.size
        counts["results"] += figures.results
        for note in figures.notes:
            self._notes[name, note] = self._notes.get((name, note), 0) + 1

    def to_json(self) -> Json:
        """Returns the report as clients get it."""
        notes = [{"tool": tool, "note": note, "calls": calls} for (tool, note), calls in self._notes.items()]
        return {"tools": {tool: {**counts} for tool, counts in self._tools.items()}, "notes": notes}

    def count_by_tool(self) -> Json:
        """Returns the numbers of each tool, and how many of its calls have which note."""
        counts = {tool: {**each} for tool, each in self._tools.items()}
        for (tool, note), calls in self._notes.items():
            counts[tool][note] = calls
        return counts

    def restore(self, saved: Any) -> None:
        """Takes over the report of the process that began the response. Older servers saved none."""
        if not isinstance(saved, dict):
            return
        self._tools = {tool: {**counts} for tool, counts in saved["tools"].items()}
        self._notes = {(note["tool"], note["note"]): note["calls"] for note in saved["notes"]}
