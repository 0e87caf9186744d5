"""Pins of tools: the operator accepted their definitions, and tools with other ones are held back.

What a tool says of itself is an instruction to the model. A server that changes it after it was examined (a "rug pull")
could have the model do something else.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import orjson
from mcp_types import Tool

_DIGEST_CHARS: Final = 32
_CHANGED: Final = "its definition is not the one that was accepted (`pins` of the server)"
_NEW: Final = "nobody has accepted its definition (`pins` of the server)"


def digest_definition(tool: Tool) -> str:
    """Returns a digest of all that a tool says of itself: name, description, schema, and hints."""
    hints = None if tool.annotations is None else tool.annotations.model_dump(mode="json", exclude_none=True)
    parts = [tool.name, tool.title, tool.description, tool.input_schema, hints]
    return sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_DIGEST_CHARS]


def find_unaccepted(tools: Iterable[Tool], pins: Mapping[str, str]) -> dict[str, str]:
    """Returns the names of the tools whose definitions are not the pinned ones, and why they are held back."""
    return {
        tool.name: _CHANGED if tool.name in pins else _NEW
        for tool in tools
        if pins.get(tool.name) != digest_definition(tool)
    }
