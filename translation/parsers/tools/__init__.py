"""Tool calls out of plain model text, one parser per format."""

from translation.parsers.tools.forcing import Forced, forced, opening, stop
from translation.parsers.tools.parser_output import (
    Arguments,
    CallEnded,
    CallStarted,
    Said,
    Text,
    ToolParser,
    ToolParserName,
    Unreadable,
)
from translation.parsers.tools.registry import PARSERS

__all__ = [
    "PARSERS",
    "Arguments",
    "CallEnded",
    "CallStarted",
    "Forced",
    "Said",
    "Text",
    "ToolParser",
    "ToolParserName",
    "Unreadable",
    "forced",
    "opening",
    "stop",
]
