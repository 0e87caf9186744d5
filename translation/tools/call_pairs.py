"""Pairs the calls of an input with their outputs. A call without an output, or the reverse, is an error."""

from collections import deque
from collections.abc import Sequence

from translation.errors import InvalidRequest
from translation.representation.items import CALL_OUTPUT_TYPES, CALL_TYPES
from translation.representation.json_types import Item


class CallOutputPairs:
    """Finds the output of each call, at any later position. Several calls may share an id; each has its own output."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.calls: list[int] = []
        """Indexes of the calls, in ascending order."""
        self.outputs: dict[int, int] = {}
        """Index of a call -> index of its output."""
        self._items = items
        self._waiting: dict[str, deque[int]] = {}
        """Call id -> indexes of the calls without an output."""
        self._strays: dict[int, None] = {}
        """Indexes of the outputs without a call, in ascending order."""
        for index, item in enumerate(items):
            kind = item.get("type")
            if kind in CALL_TYPES:
                self.calls.append(index)
                self._waiting.setdefault(item["call_id"], deque()).append(index)
            elif kind in CALL_OUTPUT_TYPES:
                if waiting := self._waiting.get(item.get("call_id") or ""):
                    self.outputs[waiting.popleft()] = index
                else:
                    self._strays[index] = None

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
        """Raises InvalidRequest for the first output without a call, or else for a call without an output."""
        for output in self._strays:
            self.check_output(output)
        for waiting in self._waiting.values():
            for call in waiting:
                self.output_of(call)
