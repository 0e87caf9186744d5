"""Pairs the calls of an input with their outputs. A call without an output, or the reverse, is an error."""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from translation.errors import InvalidRequest
from translation.representation.items import CALL_OUTPUT_TYPES, CALL_TYPES
from translation.representation.json_types import Item

_PLACEHOLDER_TYPES: Final = frozenset({"compaction", "item_reference"})
"""Types of items that stand for others, which may be calls or outputs."""


class CallOutputPairs:
    """Finds the output of each call, at any later position. Several calls may share an id; each has its own output."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.calls: list[int] = []
        """Indexes of the calls, in ascending order."""
        self.outputs: dict[int, int] = {}
        """Index of a call -> index of its output."""
        self.has_placeholders = False
        """Whether a call or an output may be missing, because an item stands for it or it has yet to follow."""
        self._items = items
        self._strays: dict[int, None] = {}
        """Indexes of the outputs without a call, in ascending order."""
        waiting: dict[str, int] = {}
        """Call id -> index of the first call without an output."""
        later: dict[str, deque[int]] = {}
        """Call id -> indexes of the further calls without an output."""
        for index, item in enumerate(items):
            kind = item.get("type")
            if kind == "message":
                continue
            if kind in CALL_TYPES:
                self.calls.append(index)
                if waiting.setdefault(item["call_id"], index) != index:
                    later.setdefault(item["call_id"], deque()).append(index)
            elif kind in CALL_OUTPUT_TYPES:
                call_id = item.get("call_id") or ""
                if (call := waiting.pop(call_id, None)) is None:
                    self._strays[index] = None
                else:
                    self.outputs[call] = index
                if later and (calls := later.get(call_id)):
                    waiting[call_id] = calls.popleft()
            if kind in _PLACEHOLDER_TYPES or item.get("async"):
                self.has_placeholders = True

    @property
    def call_ids(self) -> Collection[str]:
        """The ids of the calls, each once."""
        return {self._items[call]["call_id"] for call in self.calls}

    @property
    def has_unique_ids(self) -> bool:
        """Whether every call has an id, and no two have the same."""
        ids = self.call_ids
        return len(ids) == len(self.calls) and all(call_id and call_id.strip() for call_id in ids)

    def output_of(self, call: int) -> int:
        """Returns the index of the output of the call at the index `call`. Raises InvalidRequest if it has none."""
        if call not in self.outputs:
            call_id = self._items[call].get("call_id") or ""
            raise InvalidRequest(f"No output for the tool call {call_id!r} follows it.", param=f"input[{call}].call_id")
        return self.outputs[call]

    def check_output(self, output: int) -> None:
        """Raises InvalidRequest if the output at this index has no call."""
        if output in self._strays:
            call_id = self._items[output].get("call_id")
            raise InvalidRequest(
                f"No tool call with the call_id {call_id!r} comes before this output.", param=f"input[{output}].call_id"
            )

    def check_all(self) -> None:
        """Raises InvalidRequest for the first output without a call, or else for the first call without an output."""
        for output in self._strays:
            self.check_output(output)
        if len(self.outputs) < len(self.calls):
            self.output_of(next(call for call in self.calls if call not in self.outputs))
