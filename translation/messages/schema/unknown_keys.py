"""Finds keys within a request that have no meaning for other APIs. Keys of the request itself are in `Turn.extra`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from translation.messages.schema.blocks import BLOCK_FIELDS, TextBlock
from translation.messages.schema.request import (
    AdaptiveThinking,
    EnabledThinking,
    InstructionMessage,
    NamedChoice,
    OutputConfig,
    UserMetadata,
)
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_OBJECT_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "metadata": frozenset(UserMetadata.__annotations__),
    "output_config": frozenset(OutputConfig.__annotations__),
    "thinking": frozenset({*EnabledThinking.__annotations__, *AdaptiveThinking.__annotations__}),
    "tool_choice": frozenset(NamedChoice.__annotations__),
}
"""Parameter -> the keys that it has in the schema."""

_MESSAGE_FIELDS: Final = frozenset(InstructionMessage.__annotations__)
_SYSTEM_FIELDS: Final = frozenset(TextBlock.__annotations__)

_IGNORED: Final = frozenset({"cache_control", "citations"})
"""Keys of blocks that need no report here: marks are hints, and whoever lifts a block reports its citations."""

_DIRECT_CALLER: Final = {"type": "direct"}
"""The usual caller of a tool: the model itself."""


def find_unknown_keys(params: Mapping[str, Any]) -> Iterator[Loss]:
    """Yields a loss for each key within a valid request that the schema does not have, under its path."""
    for name, fields in _OBJECT_FIELDS.items():
        yield from _report(name, params.get(name) or {}, fields)
    if isinstance(system := params.get("system"), list):
        for block in system:
            yield from _report("system", block, _SYSTEM_FIELDS)
    for message in params["messages"]:
        yield from _report("messages", message, _MESSAGE_FIELDS)
        yield from _find_in_blocks(message.get("content"))


def _find_in_blocks(content: Any) -> Iterator[Loss]:
    for block in content if isinstance(content, list) else ():
        if fields := BLOCK_FIELDS.get(block["type"]):
            yield from _report("messages.content", block, fields)
            if block["type"] == "tool_result":
                yield from _find_in_blocks(block.get("content"))


def _report(path: str, value: Json, fields: Iterable[str]) -> Iterator[Loss]:
    for key in value.keys() - fields - _IGNORED:
        if value[key] not in (None, _DIRECT_CALLER):
            yield Loss(f"{path}.{key:.50}", "dropped")
