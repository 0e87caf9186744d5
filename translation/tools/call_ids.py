"""Ids of tool calls, one for each: outputs are matched by them."""

import re
from collections.abc import Iterable
from typing import Final

_GENERATED_ID: Final = re.compile(r"tc_[0-9]+")
"""What ids look like that are made here."""


class CallIdAllocator:
    """The ids of the calls of one reply or one history, beside those that are `taken` already.

    A second call by the same id is given `ID__2`, a third `ID__3`; one without an id is given `tc_N`.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}
        self._generated = 0

    def claim(self, upstream_id: str | None) -> str:
        """The id for the call that the upstream gave this one."""
        call_id = upstream_id if upstream_id and upstream_id.strip() else self._generate()
        if call_id in self._taken:
            # Ids made for another reply say nothing that would have to be kept.
            call_id = self._generate() if _GENERATED_ID.fullmatch(call_id) else self._with_suffix(call_id)
        self._taken.add(call_id)
        return call_id

    def _generate(self) -> str:
        while True:
            self._generated += 1
            if (call_id := f"tc_{self._generated}") not in self._taken:
                return call_id

    def _with_suffix(self, call_id: str) -> str:
        count = self._counts.get(call_id, 1)
        while True:
            count += 1
            if (unused := f"{call_id}__{count}") not in self._taken:
                self._counts[call_id] = count
                return unused
