"""Ids of tool calls, one for each: outputs are matched by them."""

import re
from collections.abc import Iterable
from typing import Final

_MADE: Final = re.compile(r"tc_[0-9]+")
"""What ids look like that are made here."""


class CallIds:
    """The ids of the calls of one reply or one history, beside those that are `taken` already.

    A second call by the same id is given `ID__2`, a third `ID__3`; one without an id is given `tc_N`.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._counts: dict[str, int] = {}
        self._made = 0

    def take(self, said: str | None) -> str:
        """The id for the call that the upstream gave this one."""
        call_id = said if said and said.strip() else self._unsaid()
        if call_id in self._taken:
            # Ids made for another reply say nothing that would have to be kept.
            call_id = self._unsaid() if _MADE.fullmatch(call_id) else self._another(call_id)
        self._taken.add(call_id)
        return call_id

    def _unsaid(self) -> str:
        while True:
            self._made += 1
            if (call_id := f"tc_{self._made}") not in self._taken:
                return call_id

    def _another(self, call_id: str) -> str:
        count = self._counts.get(call_id, 1)
        while True:
            count += 1
            if (unused := f"{call_id}__{count}") not in self._taken:
                self._counts[call_id] = count
                return unused
