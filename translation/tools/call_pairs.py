"""Pairs the calls of an input with their outputs. A call without an output, or the reverse, is an error."""

from collections import defaultdict, deque
from collections.abc import Sequence

from translation.errors import InvalidRequest
from translation.representation.json_types import Item


class CallOutputPairs:
    """Finds the output of each call, at any later position. Several calls may share an id; each has its own output."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._outputs: dict[str, deque[int]] = defaultdict(deque)
        for index, item in enumerate(items):
            if item.get("type") == "function_call_output":
                self._outputs[item.get("call_id") or ""].append(index)
        self._claimed: set[int] = set()

    def claim_output(self, call: int) -> int:
        """Returns the index of the output of the call at the index `call`. Raises InvalidRequest if it has none.

        Call it for calls in ascending order of index.
        """
        call_id = self._items[call].get("call_id") or ""
        waiting = self._outputs[call_id]
        while waiting:
            index = waiting.popleft()
            # An output before this call is before every later call, too.
            if index > call:
                self._claimed.add(index)
                return index
        raise InvalidRequest(f"No output for the tool call {call_id!r} follows it.", param=f"input[{call}].call_id")

    def check_output(self, output: int) -> None:
        """Raises InvalidRequest if no earlier call has claimed the output at this index."""
        if output not in self._claimed:
            call_id = self._items[output].get("call_id")
            raise InvalidRequest(
                f"No tool call with the call_id {call_id!r} comes before this output.", param=f"input[{output}].call_id"
            )
