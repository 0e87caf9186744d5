"""Calls of a history that wait for their output, where clients may leave the ids out."""

from collections import deque

from translation.representation.json_types import Item


class UnansweredCalls:
    """The calls without an output so far, in order. To find one among thousands takes no longer than among two."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[Item, str]] = {}
        """Number of an open call -> the call and its path."""
        self._count = 0
        # Each queue may have numbers of calls that are no longer open. They are removed when they are its first.
        self._numbers: deque[int] = deque()
        self._by_id: dict[str, deque[int]] = {}
        self._by_name: dict[str, deque[int]] = {}

    def add(self, call: Item, param: str = "") -> None:
        """Adds a `function_call` item, with its path in the request."""
        self._count += 1
        self._calls[self._count] = call, param
        self._numbers.append(self._count)
        self._by_id.setdefault(call["call_id"], deque()).append(self._count)
        self._by_name.setdefault(call["name"], deque()).append(self._count)

    def has(self, call_id: str) -> bool:
        """Whether a call of this id is open."""
        return self._find(self._by_id.get(call_id)) is not None

    def first(self) -> tuple[Item, str] | None:
        """Returns the first open call and its path."""
        number = self._find(self._numbers)
        return None if number is None else self._calls[number]

    def pop_first(self) -> Item | None:
        """Removes and returns the first open call; None if there is none."""
        return self._pop(self._numbers)

    def pop_id(self, call_id: str) -> Item | None:
        """Removes and returns the first open call of this id; None if there is none."""
        return self._pop(self._by_id.get(call_id))

    def pop_name(self, name: str) -> Item | None:
        """Removes and returns the first open call of a function; None if there is none."""
        return self._pop(self._by_name.get(name))

    def _pop(self, numbers: deque[int] | None) -> Item | None:
        number = self._find(numbers)
        if number is None:
            return None
        call, _ = self._calls.pop(number)
        return call

    def _find(self, numbers: deque[int] | None) -> int | None:
        while numbers and numbers[0] not in self._calls:
            numbers.popleft()
        return numbers[0] if numbers else None
