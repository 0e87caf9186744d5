"""Parsers of tool calls in model text, one per format, and the prefixes and schemas that force a call.

May import `translation.tools` and `translation.representation`.
"""

from translation.parsers.tools.forcing import (
    ForcedCall,
    block_stop_of,
    call_opening_of,
    force_call,
    force_text_call,
)
from translation.parsers.tools.parser_output import (
    CallArguments,
    CallEnded,
    CallStarted,
    MalformedCall,
    ParserOutput,
    PlainText,
    ToolParser,
)
from translation.parsers.tools.registry import PARSER_FACTORIES

__all__ = [
    "PARSER_FACTORIES",
    "CallArguments",
    "CallEnded",
    "CallStarted",
    "ForcedCall",
    "MalformedCall",
    "ParserOutput",
    "PlainText",
    "ToolParser",
    "block_stop_of",
    "call_opening_of",
    "force_call",
    "force_text_call",
]
