"""Responses and conversations with many items are stored in steps, between which the event loop serves others."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import pytest
from sqlalchemy import Engine, event

from gateway.state.database.database import ROWS_AT_ONCE
from gateway.state.sql.store import SqlStore
from gateway.state.values import NewResponse
from tests.own_process import StallWatch
from tests.state.responses import WORKER, completed, message_item, new, response

MAX_STALL_S: Final = 0.1
ATTEMPTS: Final = 3
ITEMS: Final = [message_item(str(number)) for number in range(30_000)]


async def store_beginning(store: SqlStore) -> None:
    await store.responses.create_response(new(response(), *ITEMS))


async def store_whole(store: SqlStore) -> None:
    whole = completed(response(), *ITEMS)
    await store.responses.store_ended_response(NewResponse(owner="ann", response=whole, input_items=[]), whole)


async def store_end(store: SqlStore) -> None:
    begun = response()
    await store.responses.create_response(new(begun, message_item("x")))
    await store.responses.finish_response("ann", completed(begun, *ITEMS), worker=WORKER)
    stored = await store.responses.load_response("ann", begun["id"])
    assert stored is not None
    assert len(stored.response["output"]) == len(ITEMS)


WAYS: dict[str, Callable[[SqlStore], Awaitable[Any]]] = {
    "the beginning of a response": store_beginning,
    "a whole response": store_whole,
    "the end of a response": store_end,
}


@pytest.fixture
def row_counts() -> Iterator[list[int]]:
    """The number of rows of each statement since."""
    counts: list[int] = []

    def note(_connection: Any, _cursor: Any, _statement: str, parameters: Any, _context: Any, many: bool) -> None:
        values = parameters if many else parameters.values() if isinstance(parameters, dict) else parameters
        counts.append(len(values) if many else max((len(each) for each in values if isinstance(each, list)), default=1))

    event.listen(Engine, "before_cursor_execute", note)
    yield counts
    event.remove(Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("way", WAYS)
async def test_no_statement_has_many_rows(store: SqlStore, way: str, row_counts: list[int]) -> None:
    await WAYS[way](store)
    assert max(row_counts, default=0) <= ROWS_AT_ONCE


@pytest.mark.parametrize("way", WAYS)
async def test_many_items_hold_up_nobody(store: SqlStore, way: str) -> None:
    stalls: list[float] = []
    while len(stalls) < ATTEMPTS and min(stalls, default=MAX_STALL_S) >= MAX_STALL_S:
        watch = StallWatch()
        await WAYS[way](store)
        stalls.append(watch.longest_s)
    assert min(stalls) < MAX_STALL_S, stalls
