"""The blocks of a relayed message that are open: clients put each delta into the block that its index names."""

import re
from typing import Any, Final

from translation.errors import ProtocolViolation
from translation.messages.upstream.decode import NOT_OPEN, is_blank_delta, is_own_delta
from translation.representation.json_types import Json

_NEVER: Final = b"\n"
"""The beginning of no delta, because each is on one line."""

_DELTA_START: Final = re.compile(
    rb"\{\s*(?:"
    rb'"type"\s*:\s*"content_block_delta"\s*,\s*"index"\s*:\s*\d+'
    rb"|"
    rb'"index"\s*:\s*\d+\s*,\s*"type"\s*:\s*"content_block_delta"'
    rb')\s*,\s*"delta"\s*:\s*\{\s*"type"\s*:\s*"[a-z_]+"\s*[,}]'
)
"""The beginning of a delta that says all about its block.

Servers whose models have the keys in another order, as those of SGLang and vLLM (`type`, `delta`, `index`), never match
it. Each of their deltas is parsed, which takes longer and is no less correct.
"""


class OpenBlocks:
    """The open blocks of one relayed stream.

    Official clients fail at a delta for a block that they do not have. At a delta of another type than its block's they
    fail too, or keep nothing of it, so that text is lost without an error.
    """

    def __init__(self) -> None:
        self._types: dict[int, str] = {}
        """Index of an open block -> its type."""
        self._ended: set[int] = set()
        self._fitting_start = _NEVER
        """How the newest delta began. Another delta that begins so fits too."""

    def __bool__(self) -> bool:
        return bool(self._types)

    def is_like_newest(self, payload: bytes) -> bool:
        """Returns whether a delta begins as the newest one did, so that it is for the same block and of the same
        type. Nearly all deltas do, and need no parsing."""
        return payload.startswith(self._fitting_start)

    def read(self, event: Json, payload: bytes) -> bool:
        """Reads an event about a block, whose JSON is `payload`. Returns whether clients can read it: False for a blank
        delta that is not for an open block or not of its type, which has to be left out.

        Raises ProtocolViolation for such a delta with a text, for the end of a block that never began, and for a
        beginning without an index or a type. Clients lose nothing by a second end.
        """
        match event.get("type"):
            case "content_block_start":
                self._open_block(event)
            case "content_block_delta":
                return self._check_delta(event, payload)
            case "content_block_stop":
                self._close_block(event.get("index"))
        return True

    def _open_block(self, event: Json) -> None:
        match event:
            case {"index": int(index), "content_block": {"type": str(kind)}}:
                self._types[index] = kind
                self._fitting_start = _NEVER
            case _:
                raise ProtocolViolation("the upstream began a block without an index or a type")

    def _check_delta(self, event: Json, payload: bytes) -> bool:
        index, delta = event.get("index"), event.get("delta")
        if not isinstance(index, int) or index not in self._types:
            if is_blank_delta(delta):
                return False
            raise ProtocolViolation(NOT_OPEN)
        if not isinstance(delta, dict):
            raise ProtocolViolation("the upstream sent a delta that is not an object")
        if isinstance(delta.get("type"), str) and not is_own_delta(self._types[index], delta):
            return False
        start = _DELTA_START.match(payload)
        self._fitting_start = start[0] if start else _NEVER
        return True

    def _close_block(self, index: Any) -> None:
        if not isinstance(index, int) or (index not in self._types and index not in self._ended):
            raise ProtocolViolation("the upstream ended a block that never began")
        self._types.pop(index, None)
        self._ended.add(index)
        self._fitting_start = _NEVER
