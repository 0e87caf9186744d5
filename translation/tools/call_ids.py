"""Makes the ids of tool calls unique, because outputs are matched to calls by id, and bounds the calls of a reply."""

import re
from collections.abc import Iterable
from typing import Final

from translation.errors import ProtocolViolation

_GENERATED_ID: Final = re.compile(r"tc_[0-9]+")
"""The form of ids that `CallIdAllocator` generates."""

_MAX_CALLS: Final = 1_000
"""The most calls of one reply. Each further call, and deltas of calls, may go through all of them."""


def check_call_count(count: int) -> None:
    """Raises ProtocolViolation if a reply has more calls than any model makes."""
    if count > _MAX_CALLS:
        raise ProtocolViolation(f"the upstream sent more than {_MAX_CALLS} tool calls in one reply")


class CallIdAllocator:
    """Gives the calls of one reply or one history unique ids, different from those in `used_ids`.

    A second call with the same id gets `ID__2`, a third `ID__3`. A call without an id gets `tc_N`.
    """

    def __init__(self, used_ids: Iterable[str] = ()) -> None:
        self._used_ids = set(used_ids)
        self._counts: dict[str, int] = {}
        self._generated = 0

    def claim(self, upstream_id: str | None) -> str:
        """Returns a unique id for a call to which the upstream gave `upstream_id`."""
        call_id = upstream_id if upstream_id and upstream_id.strip() else self._generate()
        if call_id in self._used_ids:
            # An id that was generated for an earlier reply has no meaning, so it gets a new one without a suffix.
            call_id = self._generate() if _GENERATED_ID.fullmatch(call_id) else self._with_suffix(call_id)
        self._used_ids.add(call_id)
        return call_id

    def _generate(self) -> str:
        while True:
            self._generated += 1
            if (call_id := f"tc_{self._generated}") not in self._used_ids:
                return call_id

    def _with_suffix(self, call_id: str) -> str:
        count = self._counts.get(call_id, 1)
        while True:
            count += 1
            if (unused := f"{call_id}__{count}") not in self._used_ids:
                self._counts[call_id] = count
                return unused
