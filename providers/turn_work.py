"""Work on a whole turn that begins when a reply does: lowering it again, searching it, counting it.

Requests are planned in threads if they are heavy. What is done later, for a retry, a round or a count, needs the same.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, ParamSpec, TypeVar

from dataplane.sharing.work_pool import run_in_pool
from translation.representation.json_types import Item

_FEW_PARTS: Final = 1500
"""So many items and parts take some 10 ms of the event loop."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


async def run_for_items(items: Sequence[Item], function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
    """Calls a function that goes through these items: in a thread if they are many, else here."""
    if has_many_parts(items):
        return await run_in_pool(function, *args, **named)
    return function(*args, **named)


def has_many_parts(items: Sequence[Item]) -> bool:
    """Whether items have so many parts, or are so many, that work on them would hold up the event loop."""
    return len(items) > _FEW_PARTS or sum(map(_count_parts, items)) > _FEW_PARTS


def _count_parts(item: Item) -> int:
    content: Any = item.get("content") or item.get("output")
    return 1 + len(content) if isinstance(content, list) else 1
