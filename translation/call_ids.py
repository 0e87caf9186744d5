"""Ids of tool calls, one for each: outputs are matched by them."""

from translation.ids import NewId


class CallIds:
    """The ids of one reply's calls. A second call by the same id is given another, one without is given a new one."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._taken: set[str] = set()

    def take(self, said: str | None) -> str:
        """The id for the call that the upstream gave this one."""
        call_id = unused = said or self._new_id("call")
        count = 1
        while unused in self._taken:
            count += 1
            unused = f"{call_id}__{count}"
        self._taken.add(unused)
        return unused
