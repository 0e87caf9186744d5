"""Weighs what was sent from outside: bodies before they are parsed, and the items of turns when they are worked on.

The time that the work takes decides where it is done: on the event loop, or in a thread.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from dataplane.core import measure_json
from dataplane.json_shape import JsonShape
from dataplane.sharing.work_pool import run_in_pool
from translation.representation.json_types import Item

INLINE_BYTES: Final = 64 * 1024
"""Bodies up to this weight are parsed and planned on the event loop: most take less than a millisecond, the worst some
10 ms. In a thread a body costs a third more or worse, because the event loop and the thread wait for each other."""

_TEXT_BYTES: Final = 32
"""Long texts cost 1/32 as much per byte as a body of small values, which is the most expensive kind."""

_VALUE_BYTES: Final = 5
"""Bytes counted per value: in the most expensive bodies, lists of the smallest objects such as `{"text":"a"},`, each
value has this size. Smaller values are plain values in lists, which are checked all at once."""


_FEW_PARTS: Final = 1500
"""So many items and parts take some 10 ms of the event loop."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class BodyWeight(NamedTuple):
    """The weight and shape of a body, which decide where it is processed."""

    weight: int
    """The size in bytes of a body of small values with the same cost; a lower bound if the body is heavy."""
    shape: JsonShape | None
    """The shape of the body, if it had to be measured to weigh it."""


def weigh_body(body: bytes) -> BodyWeight:
    """Returns the weight of a body, and its shape if that was measured.

    The number of its values decides, and then its length. Histories of agents are long texts and few values:
    one of 400 KB weighs as much as 15 KB of small values. A body has no more values than its weight, unless it is
    heavier than `INLINE_BYTES`.
    """
    if len(body) <= INLINE_BYTES:
        return BodyWeight(len(body), None)
    weight = len(body) // _TEXT_BYTES
    if weight > INLINE_BYTES:
        return BodyWeight(weight, None)
    values, _ = shape = measure_json(body)
    return BodyWeight(max(weight, min(len(body), values * _VALUE_BYTES)), shape)


def weigh_documents(documents: Sequence[str]) -> int:
    """Returns the weight of JSON documents together, as of one body that has them all."""
    length = sum(map(len, documents))
    if length <= INLINE_BYTES:
        return length
    if length // _TEXT_BYTES > INLINE_BYTES:
        return length // _TEXT_BYTES
    return weigh_body(("[" + ",".join(documents) + "]").encode()).weight


async def run_for_documents(
    documents: Sequence[str], function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs
) -> _R:
    """Calls a function that goes through these JSON documents: in a thread if they are heavy, else here."""
    return await run_for_weight(weigh_documents(documents), function, *args, **named)


async def run_for_weight(weight: int, function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
    """Calls a function that goes through something of this weight: in a thread if it is heavy, else here."""
    if weight > INLINE_BYTES:
        return await run_in_pool(function, *args, **named)
    return function(*args, **named)


async def run_for_items(items: Sequence[Item], function: Callable[_P, _R], *args: _P.args, **named: _P.kwargs) -> _R:
    """Calls a function that goes through these items: in a thread if they are many, else here.

    Requests are planned in threads if they are heavy. What is done with a turn later, for a retry, a round or a count,
    needs the same.
    """
    if has_many_parts(items):
        return await run_in_pool(function, *args, **named)
    return function(*args, **named)


def has_many_parts(items: Sequence[Item]) -> bool:
    """Returns whether items have so many parts, or are so many, that work on them would hold up the event loop."""
    return len(items) > _FEW_PARTS or sum(map(_count_parts, items)) > _FEW_PARTS


def _count_parts(item: Item) -> int:
    content: Any = item.get("content") or item.get("output")
    return 1 + len(content) if isinstance(content, list) else 1
