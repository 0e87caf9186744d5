"""Calls of an input and the outputs that answer them: one makes no sense without the other."""

from collections import defaultdict, deque
from collections.abc import Sequence

from translation.errors import InvalidRequest
from translation.representation.json_types import Item


class CallOutputPairs:
    """Finds the output of each call, wherever it stands after it. Several calls may share an id: each has its own."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._outputs: dict[str, deque[int]] = defaultdict(deque)
        for place, item in enumerate(items):
            if item.get("type") == "function_call_output":
                self._outputs[item.get("call_id") or ""].append(place)
        self._claimed: set[int] = set()

    def claim_output(self, call: int) -> int:
        """The place of the output of the call at this place. Raises InvalidRequest where there is none.

        To be asked for calls in the order of their places.
        """
        call_id = self._items[call].get("call_id") or ""
        waiting = self._outputs[call_id]
        while waiting:
            place = waiting.popleft()
            # One that stands before this call stands before every later one.
            if place > call:
                self._claimed.add(place)
                return place
        raise InvalidRequest(f"No output for the tool call {call_id!r} follows it.", param=f"input[{call}].call_id")

    def check_output(self, output: int) -> None:
        """Raises InvalidRequest for an output that no call before it has taken."""
        if output not in self._claimed:
            call_id = self._items[output].get("call_id")
            raise InvalidRequest(
                f"No tool call with the call_id {call_id!r} comes before this output.", param=f"input[{output}].call_id"
            )
